// Traffic of the TSSA kernels. Chunks of tokens each leave their sums in memory; a scan (causal) or
// a reduction (otherwise) over the chunks turns them into what each chunk continues from.
#include "roofline/counted.h"
#include "roofline/traffic.h"

namespace tost::roofline {
namespace {

// FLOPs per element of w. Forward: the energy (2), the share (3), the weighted energy (3), the
// output (4). Backward forms these again and adds the sums of ops/cpu/tssa_backward.cc.
constexpr int64_t kForwardFlops = 12, kBackwardFlops = 30;
constexpr int64_t kSoftmaxFlops = 5;  // per membership

// Bytes of the tensors that TSSA's passes meet.
struct Sizes {
  int64_t w, memberships, chunk_channels, chunk_heads, channels, heads, parameters;
};

Sizes SizesOf(const ops::TssaInputs& in) {
  const ops::TssaDims& dims = in.dims;
  const auto sum = static_cast<int64_t>(SizeOf(AccumulateDType(in.w.dtype())));
  const int64_t chunks = (dims.tokens + kTssaChunkTokens - 1) / kTssaChunkTokens;
  const int64_t bias = in.denom_bias.defined() ? dims.heads * dims.tokens * sum : 0;
  return {.w = BytesOf(in.w),
          .memberships = dims.batch * dims.tokens * dims.heads * sum,
          .chunk_channels = dims.batch * chunks * dims.width() * sum,
          .chunk_heads = dims.batch * chunks * dims.heads * sum,
          .channels = dims.batch * dims.width() * sum,
          .heads = dims.batch * dims.heads * sum,
          .parameters = BytesOf(in.temp) + bias};
}

int64_t Flops(const ops::TssaInputs& in, int64_t per_element) {
  return per_element * in.w.numel() +
         kSoftmaxFlops * in.dims.batch * in.dims.tokens * in.dims.heads;
}

// What the gradients of w and of the parameters cost to write.
Traffic Gradients(const Sizes& size, const ops::TssaGradients& gradients) {
  const int64_t dw = gradients.w.out != nullptr ? size.w : 0;
  Traffic traffic{.bytes_read = gradients.w.add ? dw : 0, .bytes_written = dw};
  for (const ops::GradientOut* gradient : {&gradients.temp, &gradients.denom_bias}) {
    if (gradient->out == nullptr) continue;
    traffic += {.bytes_read = gradient->add ? BytesOf(*gradient->out) : 0,
                .bytes_written = BytesOf(*gradient->out)};
  }
  return traffic;
}

}  // namespace

Traffic TssaTraffic(const ops::TssaInputs& in) {
  const Sizes size = SizesOf(in);
  // Energies (unless left out) and weighted energies: the chunks' sums, added up, and read by every
  // chunk as totals.
  const int64_t sums = in.normalized ? 2 : 1;
  const TssaPasses passes = in.normalized ? kTssaPasses : kUnnormalizedTssaPasses;
  return {.bytes_read = passes.w_reads * size.w + size.memberships + size.parameters +
                        BytesOf(in.mask) + 2 * sums * size.chunk_channels + 2 * size.chunk_heads,
          .bytes_written = size.w + size.memberships +
                           sums * (size.chunk_channels + size.channels) + size.chunk_heads +
                           size.heads,
          .vector_flops = Flops(in, kForwardFlops)};
}

Traffic TssaBackwardTraffic(const ops::TssaInputs& in, const ops::TssaGradients& gradients) {
  const Sizes size = SizesOf(in);
  constexpr TssaPasses kPasses = kTssaBackwardPasses;
  // Two sums over the tokens as in forward, besides the totals that forward left.
  Traffic traffic{.bytes_read = (kPasses.w_reads + kPasses.dy_reads) * size.w +
                                2 * size.memberships + size.parameters + BytesOf(in.mask) +
                                6 * size.chunk_channels + 4 * size.chunk_heads,
                  .bytes_written = size.memberships + 2 * (size.chunk_channels + size.channels) +
                                   2 * (size.chunk_heads + size.heads),
                  .vector_flops = Flops(in, kBackwardFlops)};
  return traffic += Gradients(size, gradients);
}

Traffic CausalTssaTraffic(const ops::TssaInputs& in, const ops::CausalTssaState* state) {
  const Sizes size = SizesOf(in);
  // Energies and weighted energies: each chunk writes its sums, the scan reads and writes them, the
  // next pass reads them.
  const int64_t sums = 2 * (2 * size.chunk_channels) + 2 * size.chunk_heads;
  const int64_t carried = state != nullptr ? 2 * size.channels + size.heads : 0;
  return {.bytes_read = kCausalTssaPasses.w_reads * size.w + size.memberships + size.parameters +
                        BytesOf(in.mask) + sums + carried,
          .bytes_written = size.w + size.memberships + sums + carried,
          .vector_flops = Flops(in, kForwardFlops + 1)};
}

Traffic CausalTssaBackwardTraffic(const ops::TssaInputs& in, const ops::TssaGradients& gradients) {
  const Sizes size = SizesOf(in);
  constexpr TssaPasses kPasses = kCausalTssaBackwardPasses;
  // Each sweep starts from forward's two sums before the chunk; R1 and R2 leave a sum of their own.
  const int64_t sums = 2 * (2 * size.chunk_channels) + 2 * size.chunk_heads;
  const int64_t before = 3 * (2 * size.chunk_channels + size.chunk_heads);
  // R2 writes the gradients of the logits, which R3 and the sum for denom_bias read.
  Traffic traffic{.bytes_read = (kPasses.w_reads + kPasses.dy_reads) * size.w +
                                (3 + 2) * size.memberships + size.parameters + BytesOf(in.mask) +
                                sums + before,
                  .bytes_written = size.memberships + sums,
                  .vector_flops = Flops(in, kBackwardFlops + 3)};
  return traffic += Gradients(size, gradients);
}

Traffic CausalTssaStepTraffic(const ops::TssaInputs& in, const ops::CausalTssaState& state,
                              const Tensor& y) {
  const int64_t sums =
      BytesOf(state.energy) + BytesOf(state.weighted_energy) + BytesOf(state.membership);
  return {.bytes_read = BytesOf(in.w) + SizesOf(in).parameters + sums,
          .bytes_written = BytesOf(y) + sums,
          .vector_flops = Flops(in, kForwardFlops + 1)};
}

}  // namespace tost::roofline
