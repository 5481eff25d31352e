#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "tests/ops/op_cases.h"

namespace tost {
namespace {

TEST(T1, EveryOpAgreesWithFiniteDifferencesOverAllBroadcastPatterns) {
  for (const OpCase& op : OpCases()) {
    for (const std::vector<Tensor>& inputs : op.inputs) {
      const GradcheckReport report = Gradcheck(op.fn, inputs);
      EXPECT_TRUE(report.passed()) << op.name << " of " << inputs[0].shape() << "\n"
                                   << report.Table();
    }
  }
}

TEST(T1, GradientShapeEqualsOperandShape) {
  for (const OpCase& op : OpCases()) {
    for (const std::vector<Tensor>& inputs : op.inputs) {
      std::vector<Tensor> leaves;
      for (const Tensor& input : inputs) leaves.push_back(Leaf(input));
      Tape tape;
      const Tensor y = op.fn(leaves);
      tape.BackwardFrom(y, Tensor::Zeros(y.shape(), y.dtype()));
      for (const Tensor& leaf : leaves) {
        EXPECT_EQ(leaf.grad()->value().shape(), leaf.shape()) << op.name;
        EXPECT_EQ(leaf.grad()->value().dtype(), leaf.dtype()) << op.name;
      }
    }
  }
}

}  // namespace
}  // namespace tost
