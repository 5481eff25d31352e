// The table of differentiable primitive ops: each with the inputs on which its gradient is checked.
#ifndef TOST_TESTS_OPS_OP_CASES_H_
#define TOST_TESTS_OPS_OP_CASES_H_

#include <string>
#include <vector>

#include "autograd/gradcheck.h"

namespace tost {

// Two operand shapes that broadcast.
struct BroadcastPattern {
  Shape a, b;
};
const std::vector<BroadcastPattern>& BroadcastPatterns();

struct OpCase {
  std::string name;  // of the op, as in ops/
  TensorFunction fn;
  std::vector<std::vector<Tensor>> inputs;  // several sets; exact zeros among the values where the
                                            // derivative at 0 exists
};

// Every op of ops/{elementwise,reduce,layout,matmul,softmax}.h that has a gradient.
std::vector<OpCase> OpCases();

}  // namespace tost

#endif  // TOST_TESTS_OPS_OP_CASES_H_
