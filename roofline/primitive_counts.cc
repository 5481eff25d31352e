// The slots of the primitive ops: elementwise, reductions, layout, softmax, matmul.
#include <numeric>
#include <type_traits>

#include "ops/binary_functors.h"
#include "ops/elementwise_kernels.h"
#include "ops/layout.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/reduce_functors.h"
#include "ops/softmax.h"
#include "ops/unary_functors.h"
#include "roofline/counted.h"
#include "roofline/counting_kernels.h"
#include "roofline/traffic.h"

namespace tost::roofline {
namespace {

using namespace ops::functor;  // NOLINT: the whole list of them stands below

struct Flops {
  int forward = 2, backward = 3;
};

template <class F>
constexpr Flops FlopsOf() {
  if (std::is_same_v<F, GeluExact>) return {5, 9};
  if (std::is_same_v<F, GeluByTanh>) return {8, 16};
  return {};
}

template <class F>
Traffic BinaryBackward(const F&, ops::Side side, const Tensor& a, const Tensor& b, const Tensor& dy,
                       Tensor& out, bool add) {
  const bool left = side == ops::Side::kLeft;
  const bool reads_a = left ? F::kLeftReadsA : F::kRightReadsA;
  const bool reads_b = left ? F::kLeftReadsB : F::kRightReadsB;
  const Tensor none;
  return EachOnce{.flops = 2}(reads_a ? a : none, reads_b ? b : none, dy, out, add);
}

template <class... F>
void CountUnary() {
  (Count<ops::unary_kernel<F>, EachOnce{.flops = FlopsOf<F>().forward}>(), ...);
  (Count<ops::unary_backward_kernel<F>, EachOnce{.flops = FlopsOf<F>().backward},
         Name::kBackward>(),
   ...);
}

template <class... F>
void CountBinary() {
  (Count<ops::binary_kernel<F>, EachOnce{.flops = 1}>(), ...);
}

template <class... F>
void CountBinaryBackward() {
  (Count<ops::binary_backward_kernel<F>, &BinaryBackward<F>, Name::kBackward>(), ...);
}

template <class... F>
void CountReduce() {
  (Count<ops::reduce_kernel<F>, EachOnce{.flops = 2}>(), ...);
}

template <class... F>
void CountReduceBackward() {
  (Count<ops::reduce_backward_kernel<F>, EachOnce{.flops = 3}, Name::kBackward>(), ...);
}

}  // namespace

void InstallPrimitiveCounts() {
  CountUnary<Affine, DivideByScalar, DivideScalarBy, Exponential, Logarithm, SquareRoot,
             ReciprocalRoot, PowerOfScalar, SquareOf, AbsoluteValue, Rectifier, Logistic,
             HyperbolicTangent, GeluExact, GeluByTanh, Clamped>();
  CountBinary<Product, Quotient, PowerOf, Larger, Smaller, ops::functor::Sum, Difference, IsLess,
              IsLessEqual, IsGreater, IsGreaterEqual, IsEqual, KeepWhere, KeepUnless>();
  CountBinaryBackward<Product, Quotient, PowerOf, Larger, Smaller>();
  Count<ops::where_kernel, EachOnce{.flops = 1}>();
  Count<ops::scaled_copy_kernel, EachOnce{.flops = 1}>();

  CountReduce<Total, Largest, CountEqual, SquaredDeviation, SumOfExponentials>();
  CountReduceBackward<Largest, SquaredDeviation, SumOfExponentials>();
  Count<ops::cumsum_kernel, &CumsumTraffic>();

  Count<ops::permute_kernel, EachOnce{}>();
  Count<ops::copy_range_kernel, &CopyRangeTraffic>();
  Count<ops::index_select_kernel, &SelectTraffic>();
  Count<ops::index_select_backward_kernel, &SelectBackwardTraffic>();
  Count<ops::gather_kernel, &SelectTraffic>();
  Count<ops::gather_backward_kernel, &SelectBackwardTraffic>();

  Count<ops::softmax_kernel, EachOnce{.flops = 5}>();
  Count<ops::log_softmax_kernel, EachOnce{.flops = 5}>();
  Count<ops::softmax_backward_kernel, EachOnce{.flops = 4}>();
  Count<ops::log_softmax_backward_kernel, EachOnce{.flops = 4}>();
  Count<ops::matmul_kernel, &MatmulTraffic>();
}

}  // namespace tost::roofline
