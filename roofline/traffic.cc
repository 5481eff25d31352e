#include "roofline/traffic.h"

#include <algorithm>

#include "ops/loss.h"
#include "ops/matmul_products.h"
#include "roofline/counted.h"
#include "roofline/products.h"

namespace tost::roofline {
namespace {

int64_t Columns(const Tensor& x) { return x.shape()[-1]; }
int64_t Rows(const Tensor& x) { return Columns(x) > 0 ? x.numel() / Columns(x) : 0; }

int64_t SizeAt(DType dtype) { return static_cast<int64_t>(SizeOf(dtype)); }

}  // namespace

Traffic ProductTraffic(DType operands, int64_t multiplications, int64_t bytes_read,
                       int64_t bytes_written) {
  Traffic traffic{.bytes_read = bytes_read, .bytes_written = bytes_written};
  (operands == DType::kBFloat16 ? traffic.bfloat16_products : traffic.float32_products) =
      2 * multiplications;
  return traffic;
}

Traffic GemmTraffic(const ops::GemmOptions& options, const Tensor& a, const Tensor& b,
                    const Tensor& c) {
  const int64_t k = options.transpose_a ? Rows(a) : Columns(a);
  return ProductTraffic(a.dtype(), c.numel() * k,
                        BytesOf(a) + BytesOf(b) + (options.add ? BytesOf(c) : 0), BytesOf(c));
}

namespace {

bool JoinsItsProduct(const Tensor& bias, const Tensor& y) {
  return bias.defined() && y.dtype() != DType::kBFloat16;
}

Launch ProductOfLinear(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  Traffic traffic = GemmTraffic({.transpose_b = true}, x, w, y);
  if (JoinsItsProduct(b, y)) traffic.bytes_read += BytesOf(b);
  return {"product", traffic};
}

}  // namespace

std::vector<Launch> LinearLaunches(const Tensor& x, const Tensor& w, const Tensor& b,
                                   const Tensor& y) {
  std::vector<Launch> launches{ProductOfLinear(x, w, b, y)};
  if (b.defined() && !JoinsItsProduct(b, y)) {
    launches.push_back({"bias",
                        {.bytes_read = BytesOf(y) + BytesOf(b),
                         .bytes_written = BytesOf(y),
                         .vector_flops = y.numel()}});
  }
  return launches;
}

std::vector<Launch> LinearGeluLaunches(const Tensor& x, const Tensor& w, const Tensor& b,
                                       const Tensor& u, const Tensor& y) {
  const bool left = b.defined() && !JoinsItsProduct(b, u);
  return {ProductOfLinear(x, w, b, u),
          {"GELU",
           {.bytes_read = BytesOf(u) + (left ? BytesOf(b) : 0),
            .bytes_written = BytesOf(y) + (left ? BytesOf(u) : 0),
            .vector_flops = 6 * u.numel()}}};
}

Traffic MatmulTraffic(ops::MatmulForm form, const Tensor& a, const Tensor& b, const Tensor& c) {
  const ops::MatmulProducts products(form.transpose_a, form.transpose_b, a.shape(), b.shape(),
                                     c.shape());
  return ProductTraffic(a.dtype(), products.m * products.n * products.k * products.count,
                        BytesOf(a) + BytesOf(b) + (form.add ? BytesOf(c) : 0), BytesOf(c));
}

std::vector<Launch> ProjectedCrossEntropyLaunches(const Tensor& x, const Tensor& w,
                                                  const Tensor& targets, const Tensor& losses,
                                                  const Tensor& dx, const Tensor& dw) {
  const int64_t rows = Rows(x), width = Columns(x), vocabulary = w.shape()[0];
  const int64_t chunk = ops::LossChunkRows(rows, vocabulary, ops::kDeviceLossChunk);
  const int64_t chunks = (rows + chunk - 1) / chunk;
  const int64_t elements = rows * vocabulary, multiplications = elements * width;
  const int64_t logits = elements * SizeAt(AccumulateDType(x.dtype()));
  const int64_t gradient = elements * SizeAt(x.dtype());
  const bool gradients = dx.defined() || dw.defined();
  const auto product = [&](int64_t bytes_read, int64_t bytes_written) {
    return ProductTraffic(x.dtype(), multiplications, bytes_read, bytes_written);
  };
  std::vector<Launch> launches;
  launches.push_back({"logits", product(BytesOf(x) + chunks * BytesOf(w), logits)});
  launches.push_back({"loss of logits",
                      {.bytes_read = (gradients ? 2 : 1) * logits + BytesOf(targets),
                       .bytes_written = (gradients ? gradient : 0) + BytesOf(losses),
                       .vector_flops = (gradients ? 7 : 4) * elements}});
  if (dx.defined()) {
    launches.push_back({"gradient of x", product(gradient + chunks * BytesOf(w), BytesOf(dx))});
  }
  if (dw.defined()) {
    launches.push_back({"gradient of w", product(gradient + BytesOf(x) + (chunks - 1) * BytesOf(dw),
                                                 chunks * BytesOf(dw))});
  }
  return launches;
}

Traffic LayerNormBackwardTraffic(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                 const Tensor& rstd, const Tensor& dy,
                                 const ops::LayerNormGradients& out) {
  const int64_t dx = BytesOf(out.dx);
  return {.bytes_read = BytesOf(x) + BytesOf(weight) + BytesOf(mean) + BytesOf(rstd) + BytesOf(dy) +
                        (out.add ? dx : 0),
          .bytes_written = dx + BytesOf(out.weight_sums) + BytesOf(out.bias_sums),
          .vector_flops = x.numel() * ((out.dx.defined() ? 10 : 0) + (out.want_sums ? 4 : 0))};
}

Traffic ScaledResidualBackwardTraffic(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                                      const ops::ScaledResidualGradients& out) {
  const int64_t dy = BytesOf(out.dy);
  return {.bytes_read =
              BytesOf(gamma) + (out.want_sums ? BytesOf(y) : 0) + BytesOf(dz) + (out.add ? dy : 0),
          .bytes_written = dy + BytesOf(out.gamma_sums),
          .vector_flops = dz.numel() * ((out.dy.defined() ? 1 : 0) + (out.want_sums ? 2 : 0))};
}

Traffic EmbeddingTraffic(const Tensor& ids, const Tensor& /*table*/, const Tensor& positions,
                         int64_t /*first_position*/, const Tensor& y) {
  // A row of the table for each token, and one of the positions.
  const int64_t rows = positions.defined() ? 2 : 1;
  return {.bytes_read = BytesOf(ids) + rows * BytesOf(y),
          .bytes_written = BytesOf(y),
          .vector_flops = positions.defined() ? y.numel() : 0};
}

Traffic EmbeddingTableBackwardTraffic(const Tensor& ids, const Tensor& dy, bool add,
                                      const Tensor& dtable) {
  // Rows with a token are added to; where there is nothing to add to, all are zeroed first.
  const int64_t used =
      std::min(ids.numel(), dtable.shape()[0]) * Columns(dtable) * SizeAt(dtable.dtype());
  return {.bytes_read = BytesOf(ids) + BytesOf(dy) + used,
          .bytes_written = used + (add ? 0 : BytesOf(dtable)),
          .vector_flops = dy.numel()};
}

Traffic AdamWTraffic(const ops::AdamWStep&, const Tensor& update, const Tensor& gradient,
                     const Tensor& value, const Tensor& first, const Tensor& second,
                     const Tensor& compute) {
  const int64_t state = BytesOf(value) + BytesOf(first) + BytesOf(second);
  return {.bytes_read = BytesOf(update) + BytesOf(gradient) + state,
          .bytes_written = state + BytesOf(compute),
          .vector_flops = 15 * value.numel()};
}

Traffic SgdTraffic(const ops::SgdStep&, const Tensor& update, const Tensor& gradient,
                   const Tensor& value, const Tensor& momentum, const Tensor& compute) {
  const int64_t state = BytesOf(value) + BytesOf(momentum);
  return {.bytes_read = BytesOf(update) + BytesOf(gradient) + state,
          .bytes_written = state + BytesOf(compute),
          .vector_flops = 7 * value.numel()};
}

Traffic CumsumTraffic(const Tensor& x, int /*axis*/, bool /*reverse*/, Tensor& y, bool add) {
  return EachOnce{.flops = 1}(x, y, add);
}

Traffic CopyRangeTraffic(const ops::AxisRange& range, const Tensor& x, const Tensor& y, bool add) {
  const int64_t extent = x.shape()[range.axis];
  const int64_t count = extent > 0 ? x.numel() / extent * range.count : 0;
  const int64_t from = count * SizeAt(x.dtype()), to = count * SizeAt(y.dtype());
  return {
      .bytes_read = from + (add ? to : 0), .bytes_written = to, .vector_flops = add ? count : 0};
}

Traffic SelectTraffic(const Tensor& /*x*/, int /*axis*/, const Tensor& indices, const Tensor& y) {
  return {.bytes_read = BytesOf(y) + BytesOf(indices), .bytes_written = BytesOf(y)};
}

Traffic SelectBackwardTraffic(const Tensor& dy, int /*axis*/, const Tensor& indices,
                              const Tensor& dx) {
  const int64_t touched = std::min(dy.numel(), dx.numel()) * SizeAt(dx.dtype());
  return {.bytes_read = BytesOf(dy) + BytesOf(indices) + touched,
          .bytes_written = touched,
          .vector_flops = dy.numel()};
}

}  // namespace tost::roofline
