#include "autograd/base/dtype.h"

#include <sstream>
#include <type_traits>

#include "gtest/gtest.h"

namespace tost {
namespace {

TEST(DType, SizesMatchTheTypes) {
  EXPECT_EQ(SizeOf(kDTypeOf<float>), sizeof(float));
  EXPECT_EQ(SizeOf(kDTypeOf<bfloat16>), sizeof(bfloat16));
  EXPECT_EQ(SizeOf(kDTypeOf<double>), sizeof(double));
  EXPECT_EQ(SizeOf(kDTypeOf<int32_t>), sizeof(int32_t));
  EXPECT_EQ(SizeOf(kDTypeOf<uint16_t>), sizeof(uint16_t));
}

TEST(DType, PrintsItsName) {
  std::ostringstream out;
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kUint16}) {
    out << dtype << " ";
  }
  EXPECT_EQ(out.str(), "float32 bfloat16 float64 int32 uint16 ");
}

TEST(DType, SumsOfHalfPrecisionAreFormedInFloat) {
  static_assert(std::is_same_v<Accumulate<bfloat16>, float>);
  static_assert(std::is_same_v<Accumulate<float>, float>);
  static_assert(std::is_same_v<Accumulate<double>, double>);
  EXPECT_EQ(AccumulateDType(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(AccumulateDType(DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(AccumulateDType(DType::kFloat64), DType::kFloat64);
}

TEST(DType, VisitFloatCallsWithTheNamedType) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    EXPECT_EQ(VisitFloat(dtype, [](auto zero) { return kDTypeOf<decltype(zero)>; }), dtype);
  }
}

TEST(DTypeDeathTest, VisitFloatRefusesIntegers) {
  EXPECT_DEATH(VisitFloat(DType::kInt32, [](auto) {}), "expected a floating type, got int32");
}

}  // namespace
}  // namespace tost
