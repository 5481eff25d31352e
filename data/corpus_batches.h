// Pieces of a corpus in batches, the next of which is read while one is worked on.
#ifndef TOST_DATA_CORPUS_BATCHES_H_
#define TOST_DATA_CORPUS_BATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "data/corpus.h"

namespace tost::data {

struct CorpusBatch {
  std::vector<TextPiece> pieces;
  int64_t text_bytes = 0;
  // Of the corpus, up to here:
  int64_t documents = 0;
  int64_t consumed_bytes = 0;
};

// Calls work with all pieces in order, some megabytes at a time, until it returns an error. One
// thread reads and decompresses ahead, so that at most two batches are in memory.
absl::Status ForEachBatch(Corpus& corpus, absl::FunctionRef<absl::Status(const CorpusBatch&)> work);

}  // namespace tost::data

#endif  // TOST_DATA_CORPUS_BATCHES_H_
