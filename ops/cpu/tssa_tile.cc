#include "ops/cpu/tssa_tile.h"

namespace tost::ops::cpu {
namespace {

// Chunks per thread and wave. Fewer wait longer for each other at the end of a pass, more leave the
// cache. Results do not depend on it.
constexpr int64_t kChunksPerThread = 8;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kColumns = 256;

// Calls body(sequence, first column, columns) for blocks of at most kColumns, in parallel.
template <class Body>
void ForColumnBlocks(const Wave& wave, int64_t width, Body body) {
  const int64_t blocks = DivideUp(width, kColumns);
  const int64_t grain = RowGrain(kColumns * wave.chunks);
  ParallelFor(wave.sequences * blocks, grain, [&](int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) {
      const int64_t column = item % blocks * kColumns;
      body(wave.first_sequence + item / blocks, column, std::min(kColumns, width - column));
    }
  });
}

}  // namespace

Waves::Waves(const TssaDims& dims, bool whole_sequences)
    : dims_(dims), grain_(RowGrain(kChunkTokens * dims.width())) {
  const int64_t all_chunks = ChunkCount(dims);
  const int64_t target = kChunksPerThread * ThreadCount() * grain_;
  if (whole_sequences) {
    chunks_ = all_chunks;
    sequences_ = std::clamp<int64_t>(target / std::max<int64_t>(all_chunks, 1), 1, dims.batch);
  } else {
    sequences_ = std::clamp<int64_t>(target, 1, dims.batch);
    chunks_ = std::clamp<int64_t>(DivideUp(target, sequences_), 1, all_chunks);
  }
}

void Waves::ForEach(Direction direction, absl::FunctionRef<void(const Wave&)> run) const {
  const int64_t all_chunks = ChunkCount(dims_);
  const int64_t steps = DivideUp(all_chunks, chunks_);
  for (int64_t sequence = 0; sequence < dims_.batch; sequence += sequences_) {
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t first = (direction == Direction::kForward ? i : steps - 1 - i) * chunks_;
      run({sequence, std::min(sequences_, dims_.batch - sequence), first,
           std::min(chunks_, all_chunks - first)});
    }
  }
}

void Waves::Run(const Wave& wave, absl::FunctionRef<void(const Chunk&)> pass) const {
  const int64_t all_chunks = ChunkCount(dims_);
  ParallelFor(wave.sequences * wave.chunks, grain_, [&](int64_t first, int64_t last) {
    for (int64_t slot = first; slot < last; ++slot) {
      const int64_t sequence = wave.first_sequence + slot / wave.chunks;
      const int64_t chunk = wave.first_chunk + slot % wave.chunks;
      const int64_t begin = chunk * kChunkTokens;
      pass({sequence, sequence * all_chunks + chunk, begin,
            std::min(kChunkTokens, dims_.tokens - begin), slot});
    }
  });
}

template <class A>
void ScanChunkSums(const TssaDims& dims, const Wave& wave, Direction direction, int64_t width,
                   A* sums, double* carry) {
  ForColumnBlocks(wave, width, [&](int64_t sequence, int64_t column, int64_t columns) {
    double* __restrict total = carry + sequence * width + column;
    for (int64_t i = 0; i < wave.chunks; ++i) {
      const int64_t chunk =
          wave.first_chunk + (direction == Direction::kForward ? i : wave.chunks - 1 - i);
      A* __restrict row = sums + (sequence * ChunkCount(dims) + chunk) * width + column;
      for (int64_t c = 0; c < columns; ++c) {
        const A sum = row[c];
        row[c] = static_cast<A>(total[c]);
        total[c] += static_cast<double>(sum);
      }
    }
  });
}
template void ScanChunkSums(const TssaDims&, const Wave&, Direction, int64_t, float*, double*);
template void ScanChunkSums(const TssaDims&, const Wave&, Direction, int64_t, double*, double*);

template <class A>
void SumChunks(const TssaDims& dims, const Wave& wave, int64_t width, const A* sums, A* totals) {
  const int64_t chunks = ChunkCount(dims);
  ForColumnBlocks(wave, width, [&](int64_t sequence, int64_t column, int64_t columns) {
    double total[kColumns] = {};
    for (int64_t k = 0; k < chunks; ++k) {
      const A* row = sums + (sequence * chunks + k) * width + column;
      for (int64_t c = 0; c < columns; ++c) total[c] += static_cast<double>(row[c]);
    }
    A* out = totals + sequence * width + column;
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<A>(total[c]);
  });
}
template void SumChunks(const TssaDims&, const Wave&, int64_t, const float*, float*);
template void SumChunks(const TssaDims&, const Wave&, int64_t, const double*, double*);

}  // namespace tost::ops::cpu
