// Traffic of the attention kernels.
#include "roofline/counted.h"
#include "roofline/products.h"
#include "roofline/traffic.h"

namespace tost::roofline {
namespace {

constexpr int64_t kTile = 64;         // tokens
constexpr int64_t kSoftmaxFlops = 5;  // per pair of tokens and head

// Of one sequence under softmax attention.
struct Pairs {
  int64_t weights;  // pairs of tokens that see each other
  int64_t rows;     // rows of the other side that all tiles of one side read together

  Pairs(int64_t tokens, bool causal) {
    const int64_t tiles = (tokens + kTile - 1) / kTile;
    weights = causal ? tokens * (tokens + 1) / 2 : tokens * tokens;
    rows = tiles * tokens;
    // Tile i sees i + 1 tiles, the last of which may be short.
    if (causal) rows = tiles * (tiles - 1) / 2 * kTile + tokens;
  }
};

}  // namespace

Traffic AttentionTraffic(const ops::AttentionOptions& options, const Tensor& qkv, const Tensor& y,
                         const Tensor& log_sum) {
  const int64_t batch = qkv.shape()[0], tokens = qkv.shape()[1], width = y.shape()[2];
  const Pairs pairs(tokens, options.causal);
  const int64_t row = BytesOf(y) / tokens;  // a token of the whole batch
  return {.bytes_read = row * (tokens + 2 * pairs.rows),
          .bytes_written = BytesOf(y) + BytesOf(log_sum),
          .vector_flops = batch * pairs.weights * (4 * width + kSoftmaxFlops * options.heads)};
}

Traffic AttentionBackwardTraffic(const ops::AttentionOptions& options, const Tensor& qkv,
                                 const Tensor& y, const Tensor& log_sum, const Tensor& dy,
                                 const Tensor& dqkv, bool add) {
  const int64_t batch = qkv.shape()[0], tokens = qkv.shape()[1], width = y.shape()[2];
  const Pairs pairs(tokens, options.causal);
  const int64_t row = BytesOf(y) / tokens, number = BytesOf(log_sum) / tokens;
  const int64_t delta = BytesOf(log_sum);  // D, one per token and head, from y and dy
  const int64_t of_keys = 2 * row * (tokens + pairs.rows) + 2 * number * pairs.rows;
  const int64_t of_queries = 2 * row * (tokens + pairs.rows) + 2 * number * tokens;
  return {.bytes_read = BytesOf(y) + BytesOf(dy) + of_keys + of_queries + (add ? BytesOf(dqkv) : 0),
          .bytes_written = delta + BytesOf(dqkv),
          .vector_flops = batch * pairs.weights * (14 * width + 2 * kSoftmaxFlops * options.heads) +
                          2 * y.numel()};
}

Traffic AttentionFillTraffic(int /*heads*/, const Tensor& qkv, int64_t /*first*/,
                             const ops::KeyValueCache& /*cache*/) {
  const int64_t keys_and_values = BytesOf(qkv) / 3 * 2;
  return {.bytes_read = keys_and_values, .bytes_written = keys_and_values};
}

Traffic AttentionStepTraffic(int heads, const Tensor& qkv, int64_t count,
                             const ops::KeyValueCache& cache, const Tensor& y) {
  const auto element = static_cast<int64_t>(SizeOf(cache.keys.dtype()));
  return {.bytes_read = BytesOf(qkv) / 3 + 2 * cache.batch * count * cache.width * element,
          .bytes_written = BytesOf(y),
          .vector_flops = cache.batch * count * (4 * cache.width + kSoftmaxFlops * heads)};
}

Traffic ClassAttentionTraffic(const ops::ClassAttentionDims& dims, const Tensor& qkv,
                              const Tensor& y, const Tensor& p) {
  const int64_t scores = dims.batch * dims.tokens * dims.heads;
  return {.bytes_read = BytesOf(qkv) / 3 * 2 + BytesOf(y),  // keys, values; the queries of token 0
          .bytes_written = BytesOf(y) + BytesOf(p),
          .vector_flops = scores * (4 * dims.head_dim + kSoftmaxFlops)};
}

Traffic ClassAttentionBackwardTraffic(const ops::ClassAttentionDims& dims, const Tensor& qkv,
                                      const Tensor& p, const Tensor& dy, bool add,
                                      const Tensor& dqkv) {
  const int64_t scores = dims.batch * dims.tokens * dims.heads;
  return {
      .bytes_read = BytesOf(qkv) / 3 * 2 + 2 * BytesOf(dy) + BytesOf(p) + (add ? BytesOf(dqkv) : 0),
      .bytes_written = BytesOf(dqkv),
      .vector_flops = scores * (6 * dims.head_dim + kSoftmaxFlops)};
}

std::vector<Launch> CrossCovarianceLaunches(const ops::CrossCovarianceDims& dims,
                                            const Tensor& qkv) {
  const int64_t part = BytesOf(qkv) / 3;  // q, k, v or y
  const auto sum = static_cast<int64_t>(SizeOf(AccumulateDType(qkv.dtype())));
  const int64_t norms = 2 * dims.batch * dims.width() * sum;
  const int64_t square = dims.batch * dims.width() * dims.head_dim;
  const int64_t multiplications = square * dims.tokens;
  return {{"norms",
           {.bytes_read = 2 * part,
            .bytes_written = norms,
            .vector_flops = 4 * dims.batch * dims.tokens * dims.width()}},
          {"correlation", ProductTraffic(qkv.dtype(), multiplications, 2 * part, square * sum)},
          {"softmax",
           {.bytes_read = square * sum + norms,
            .bytes_written = 2 * square * sum,
            .vector_flops = (kSoftmaxFlops + 2) * square}},
          {"output", ProductTraffic(qkv.dtype(), multiplications, part + square * sum, part)}};
}

std::vector<Launch> CrossCovarianceBackwardLaunches(const ops::CrossCovarianceDims& dims,
                                                    const Tensor& qkv, bool add, bool wants_dqkv) {
  const int64_t part = BytesOf(qkv) / 3;
  const auto sum = static_cast<int64_t>(SizeOf(AccumulateDType(qkv.dtype())));
  const int64_t norms = 2 * dims.batch * dims.width() * sum;
  const int64_t square = dims.batch * dims.width() * dims.head_dim;
  const int64_t multiplications = square * dims.tokens;
  const auto product = [&](int64_t reads, int64_t written) {
    return ProductTraffic(qkv.dtype(), multiplications, reads, written);
  };
  const int64_t added = add ? part : 0;
  std::vector<Launch> launches = {{"gradient of probabilities", product(2 * part, square * sum)},
                                  {"gradient of softmax",
                                   {.bytes_read = 3 * square * sum + norms,
                                    .bytes_written = square * sum,
                                    .vector_flops = 8 * square}}};
  if (!wants_dqkv) return launches;
  launches.push_back({"gradient of v", product(part + square * sum + added, part)});
  // Each divides by the norms, whose own gradient subtracts a multiple of q or k.
  launches.push_back({"gradient of q", product(2 * part + square * sum + added, part)});
  launches.push_back({"gradient of k", product(2 * part + square * sum + added, part)});
  return launches;
}

}  // namespace tost::roofline
