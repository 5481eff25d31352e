// Names of tensors in files against those of a model.
#ifndef TOST_TRAINERS_TENSOR_NAMES_H_
#define TOST_TRAINERS_TENSOR_NAMES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "autograd/shape.h"
#include "trainers/safetensors_header.h"

namespace tost::train {

// The prefix, of those that PyTorch's wrappers put before every name ("_orig_mod." by compilation,
// "module." by data parallelism, also both), that all names share; "" when there is none.
std::string WrapperPrefix(std::span<const std::string> names);

// Faults of a file's names and shapes, gathered so that one message shows them all.
struct TensorFaults {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> shapes;

  bool empty() const { return missing.empty() && unexpected.empty() && shapes.empty(); }
  void AddShape(absl::string_view name, const TensorEntry& entry, const Shape& expected);
  // "<beginning>: 1 missing (…); 2 unexpected (…); <end>", or OK when there are none.
  absl::Status ToStatus(absl::string_view beginning, absl::string_view end) const;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_TENSOR_NAMES_H_
