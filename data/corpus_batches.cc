#include "data/corpus_batches.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/status/statusor.h"
#include "autograd/base/errors.h"
#include "autograd/base/parallel.h"

namespace tost::data {
namespace {

// Enough that all threads have pieces to work on, and that handing over costs nothing.
constexpr int64_t kBytesPerThread = int64_t{2} << 20;
constexpr int kFewestThreads = 4;

absl::StatusOr<CorpusBatch> ReadBatch(Corpus& corpus, int64_t bytes) {
  CorpusBatch batch;
  while (batch.text_bytes < bytes) {
    TextPiece piece;
    TOST_ASSIGN_OR_RETURN(const bool found, corpus.Next(piece));
    if (!found) break;
    batch.text_bytes += static_cast<int64_t>(piece.text.size());
    batch.pieces.push_back(std::move(piece));
  }
  batch.documents = corpus.documents();
  batch.consumed_bytes = corpus.consumed_bytes();
  return batch;
}

}  // namespace

absl::Status ForEachBatch(Corpus& corpus,
                          absl::FunctionRef<absl::Status(const CorpusBatch&)> work) {
  const int64_t bytes = std::max(kFewestThreads, ThreadCount()) * kBytesPerThread;
  absl::StatusOr<CorpusBatch> batch = ReadBatch(corpus, bytes);
  while (batch.ok() && !batch->pieces.empty()) {
    // Waited for on every way out; read only then where the system gives no further thread.
    std::future<absl::StatusOr<CorpusBatch>> next = std::async(
        std::launch::async | std::launch::deferred, [&] { return ReadBatch(corpus, bytes); });
    TOST_RETURN_IF_ERROR(work(*batch));
    batch = next.get();
  }
  return batch.status();
}

}  // namespace tost::data
