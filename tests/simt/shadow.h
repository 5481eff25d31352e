// What the checker knows of memory.
#ifndef TOST_TESTS_SIMT_SHADOW_H_
#define TOST_TESTS_SIMT_SHADOW_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tost::simt {

// Who touched a cell last. The thread is its number in the block plus 1; 0 is nobody.
struct Toucher {
  uint32_t operation = 0;
  uint32_t block = 0;
  uint32_t time = 0;  // the block's clock
  uint16_t thread = 0;
};
// In place of a thread's number.
inline constexpr uint16_t kSeveralOfBlock = 0xfffd;
inline constexpr uint16_t kSeveralOfGrid = 0xfffe;
inline constexpr uint16_t kNoKernel = 0xffff;  // a copy, a fill, a host library

struct Cell {
  Toucher writer, reader;
  bool written = false;  // it has a value
  bool atomic = false;   // how it was written
};

// The cells of one device block or one shared array. A cell is as large as the smallest access so
// far, so that neighbours who touch neighbouring elements never share one.
class Shadow {
 public:
  Shadow(const char* begin, size_t bytes, bool is_shared)
      : begin_(begin), bytes_(bytes), shared_(is_shared), cells_(CellCount()) {}

  const char* begin() const { return begin_; }
  bool shared() const { return shared_; }
  void set_bytes(size_t bytes) {  // at most those at first
    bytes_ = bytes;
  }
  bool Holds(const char* p, size_t bytes) const {
    return p >= begin_ && p + bytes <= begin_ + bytes_;
  }

  // Calls visit(cell) for every cell of a range that it holds.
  template <class Visit>
  void ForEachCell(const char* p, size_t bytes, const Visit& visit) {
    const auto offset = static_cast<size_t>(p - begin_);
    while ((offset | bytes) % grain_ != 0) Halve();
    for (size_t i = offset / grain_; i < (offset + bytes) / grain_; ++i) visit(cells_[i]);
  }

 private:
  size_t CellCount() const { return (bytes_ + grain_ - 1) / grain_; }
  void Halve() {
    std::vector<Cell> halves;
    halves.reserve(2 * cells_.size());
    for (const Cell& cell : cells_) halves.insert(halves.end(), 2, cell);
    cells_ = std::move(halves);
    grain_ /= 2;
  }

  const char* begin_;
  size_t bytes_;
  bool shared_;
  size_t grain_ = 16;  // bytes of a cell; a power of two
  std::vector<Cell> cells_;
};

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_SHADOW_H_
