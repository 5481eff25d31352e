// One test per primitive op, from the table: its gradients against finite differences.
#include <map>
#include <utility>

#include "gtest/gtest.h"
#include "tests/ops/op_cases.h"

namespace tost {
namespace {

class OpGradient : public testing::Test {
 public:
  explicit OpGradient(std::vector<OpCase> cases) : cases_(std::move(cases)) {}

  void TestBody() override {
    for (const OpCase& op : cases_) {
      for (const std::vector<Tensor>& inputs : op.inputs) {
        const GradcheckReport report = Gradcheck(op.fn, inputs);
        EXPECT_TRUE(report.passed()) << op.name << " of " << inputs[0].shape() << "\n"
                                     << report.Table();
      }
    }
  }

 private:
  std::vector<OpCase> cases_;
};

// Registers `<op>.AgreesWithFiniteDifferences` for each op of the table.
[[maybe_unused]] const bool registered = [] {
  std::map<std::string, std::vector<OpCase>> by_name;
  for (OpCase& op : OpCases()) by_name[op.name].push_back(std::move(op));
  for (const auto& [name, cases] : by_name) {
    testing::RegisterTest(name.c_str(), "AgreesWithFiniteDifferences", nullptr, nullptr, __FILE__,
                          __LINE__,
                          [cases = cases]() -> testing::Test* { return new OpGradient(cases); });
  }
  return true;
}();

}  // namespace
}  // namespace tost
