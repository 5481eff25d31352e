// The layers' fused ops on the device: layer norm, residual, embedding, dropout, biases.
#include <vector>

#include "gtest/gtest.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/residual.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

constexpr DType kDTypes[] = {DType::kFloat64, DType::kFloat32, DType::kBFloat16};

// Sums of up to a thousand numbers of size 1, in another order than on the CPU; bfloat16 results
// may fall on either side of a rounding, and gradients of rounded values once more.
double Tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  return dtype == DType::kFloat32 ? 1e-5 : 3 * kBFloat16Epsilon;
}

struct Extents {
  int64_t rows, columns;
};
// One element, tails of packs, more rows than a block has, rows of packs that a warp still holds,
// and longer ones with packs and without.
const Extents kExtents[] = {{1, 1}, {3, 7}, {5, 64}, {300, 24}, {3, 768}, {2, 1030}, {2, 1536}};

Tensor Vector(int64_t columns, uint64_t seed, DType dtype) {
  return As(AccumulateDType(dtype), RandomTensor({columns}, seed));
}

TEST(LayerNorm, EqualsTheCpu) {
  const auto with_bias = [](const std::vector<Tensor>& in) {
    return ops::LayerNorm(in[0], in[1], in[2], 1e-5);
  };
  const auto without = [](const std::vector<Tensor>& in) {
    return ops::LayerNorm(in[0], in[1], {}, 1e-5);
  };
  for (const Extents& e : kExtents) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << e.rows << " x " << e.columns << " " << Name(dtype));
      const Tensor x = As(dtype, RandomTensor({e.rows, e.columns}, 1));
      const Tensor weight = Vector(e.columns, 2, dtype), bias = Vector(e.columns, 3, dtype);
      ExpectSameAsCpu(with_bias, {x, weight, bias}, Tolerance(dtype));
      ExpectSameAsCpu(without, {x, weight}, Tolerance(dtype));
    }
  }
  ExpectGradcheck(with_bias, {RandomTensor({3, 5}, 1), RandomTensor({5}, 2), RandomTensor({5}, 3)});
}

TEST(ScaledResidual, EqualsTheCpu) {
  const auto scaled = [](const std::vector<Tensor>& in) {
    return ops::ScaledResidual(in[0], in[1], in[2]);
  };
  const auto with_constant_scale = [](const std::vector<Tensor>& in) {
    return ops::ScaledResidual(in[0], in[1].Detached(), in[2]);
  };
  const auto unscaled = [](const std::vector<Tensor>& in) {
    return ops::ScaledResidual(in[0], {}, in[1]);
  };
  for (const Extents& e : kExtents) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << e.rows << " x " << e.columns << " " << Name(dtype));
      const Shape shape{e.rows, e.columns};
      const std::vector<Tensor> inputs{As(dtype, RandomTensor(shape, 1)),
                                       Vector(e.columns, 2, dtype),
                                       As(dtype, RandomTensor(shape, 3))};
      ExpectSameAsCpu(scaled, inputs, Tolerance(dtype));
      ExpectSameAsCpu(with_constant_scale, inputs, Tolerance(dtype));
      ExpectSameAsCpu(unscaled, {inputs[0], inputs[2]}, Tolerance(dtype));
    }
  }
  ExpectGradcheck(scaled, {RandomTensor({3, 5}, 1), RandomTensor({5}, 2), RandomTensor({3, 5}, 3)});
}

TEST(Embedding, RowsThatRepeatAndRowsThatNobodyUses) {
  // Row 2 most often, rows 5 and up never.
  std::vector<int32_t> ids(static_cast<size_t>(SmallShapesOnly() ? 12 : 420));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % 7 < 4 ? 2 : i % 5);
  const int64_t tokens = static_cast<int64_t>(ids.size()) / 2;
  const Tensor id = Tensor::FromHost({2, tokens}, ids);
  const auto embed = [](const std::vector<Tensor>& in) {
    return ops::Embedding(in[0], in[1], in[2]);
  };
  for (const int64_t width : {1, 5, 16}) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << width << " " << Name(dtype));
      // The gradient of a table in bfloat16 needs a parameter's float32.
      ExpectSameAsCpuForParameters(embed,
                                   {id, As(dtype, RandomTensor({9, width}, 1)),
                                    As(dtype, RandomTensor({tokens + 2, width}, 2))},
                                   Tolerance(dtype));
    }
  }
}

// The very bits: masks are a function of the key and the position.
TEST(Dropout, DropsWhatTheCpuDrops) {
  const RandomKey key{.seed = 5, .step = 3, .draw = 2, .first_row = 7};
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 13}, Shape{3, 4, 65}}) {
    SCOPED_TRACE(shape.ToString());
    for (const DType dtype : DeviceDTypes()) {
      const Tensor x = As(dtype, RandomTensor(shape, 1));
      ExpectSameAsCpu([&](const auto& in) { return ops::Dropout(in[0], 0.3f, key); }, {x}, 0);
      ExpectSameAsCpu([&](const auto& in) { return ops::DropPath(in[0], 0.3f, key); }, {x}, 0);
    }
    EXPECT_EQ(ops::DropoutMask(shape, 0.4f, key, DType::kFloat32, CudaDevice()).ToHost(),
              ops::DropoutMask(shape, 0.4f, key).ToHost());
  }
}

TEST(LinearBias, EqualsTheCpu) {
  const auto linear = [](const std::vector<Tensor>& in) {
    return ops::Linear(in[0], in[1], in[2]);
  };
  const auto gelu = [](const std::vector<Tensor>& in) {
    return ops::LinearGelu(in[0], in[1], in[2]);
  };
  for (const Extents& e : {Extents{1, 1}, Extents{5, 7}, Extents{300, 24}}) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << e.rows << " x " << e.columns << " " << Name(dtype));
      const std::vector<Tensor> inputs{As(dtype, RandomTensor({e.rows, 9}, 1)),
                                       As(dtype, RandomTensor({e.columns, 9}, 2)),
                                       Vector(e.columns, 3, dtype)};
      ExpectSameAsCpu(linear, inputs, Tolerance(dtype));
      ExpectSameAsCpu(gelu, inputs, Tolerance(dtype));
    }
  }
}

}  // namespace
}  // namespace tost
