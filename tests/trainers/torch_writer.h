// Pickles and PyTorch archives built piece by piece, also such as no Python writes.
#ifndef TOST_TESTS_TRAINERS_TORCH_WRITER_H_
#define TOST_TESTS_TRAINERS_TORCH_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainers/pickle_opcodes.h"

namespace tost::train {

// Appends instructions; the result is `bytes()`, which begins with protocol 2.
class PickleWriter {
 public:
  explicit PickleWriter(uint8_t protocol = 2);

  PickleWriter& Op(PickleOpcode opcode);
  PickleWriter& Byte(int value);
  PickleWriter& Raw(const std::string& bytes);
  PickleWriter& Text(const std::string& text);
  PickleWriter& Integer(int32_t value);
  PickleWriter& Global(const std::string& module, const std::string& name);
  // A tuple of whole numbers.
  PickleWriter& Extents(const std::vector<int64_t>& extents);
  // A tensor in the form that torch.save gives it.
  PickleWriter& Tensor(const std::string& storage_class, const std::string& key,
                       const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                       int64_t offset = 0);
  // The stop instruction, and all bytes.
  std::string Stop();

 private:
  PickleWriter& Long(int64_t value);
  std::string bytes_;
};

// A zip archive of stored records.
std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& records);

// The archive that torch.save would write: a pickle and its storages by key.
std::string TorchBytes(const std::string& pickle,
                       const std::vector<std::pair<std::string, std::string>>& storages = {},
                       const std::string& byte_order = "little");

}  // namespace tost::train

#endif  // TOST_TESTS_TRAINERS_TORCH_WRITER_H_
