// Parameters: declared by modules through a ParameterScope, owned by one ParameterSet, laid out in
// flat buckets on which the optimizer, the checkpoint and the gradient exchange work.
//
//   ParameterSet params(Device::Cpu(), /*seed=*/1337);
//   LinearLayer up(params.Root() / "mlp" / "c_fc", 384, 1536);   // declares mlp.c_fc.weight, …
//   params.Finalize();                                           // allocates and draws initial
//   values
#ifndef TOST_AUTOGRAD_PARAMETER_H_
#define TOST_AUTOGRAD_PARAMETER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "autograd/tape.h"
#include "autograd/tensor.h"

namespace tost {

// How the initial values are drawn. Random ones depend on the set's seed and the parameter's name
// only, not on the order in which parameters are declared.
struct Init {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind;
  float value;  // the constant, the standard deviation, or the bound b of [-b, b)

  static Init Zeros() { return {Kind::kConstant, 0}; }
  static Init Ones() { return {Kind::kConstant, 1}; }
  static Init Constant(float value) { return {Kind::kConstant, value}; }
  static Init Normal(float deviation) { return {Kind::kNormal, deviation}; }
  static Init Uniform(float bound) { return {Kind::kUniform, bound}; }
};

// Whether weight decay acts on a parameter. Decayed parameters are the weight matrices: they also
// get a bfloat16 copy under compute_dtype=bfloat16. Norm weights, biases, temperatures and layer
// scales are neither decayed nor rounded.
enum class Decay : bool { kNo, kYes };

class Parameter {
 public:
  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  Decay decay() const { return decay_; }

  // The master value (float32), wired to the gradient cell. Valid after ParameterSet::Finalize.
  const Tensor& value() const;
  // The value as activations of type `dtype` want it: the bfloat16 copy of a decayed parameter when
  // dtype is bfloat16, the master value otherwise. The same gradient cell either way.
  const Tensor& In(DType dtype) const;
  // Where its gradient gathers. CHECKs that it is trained.
  Grad& grad() const;

  // Takes the parameter out of training, after ParameterSet::Finalize: its value becomes a constant
  // of which no gradient is formed, and no optimizer touches it.
  void Freeze();
  bool trained() const { return value().grad() != nullptr; }

 private:
  friend class ParameterSet;
  std::string name_;
  Shape shape_;
  Init init_{};
  Decay decay_ = Decay::kYes;
  Tensor value_;
  Tensor compute_;
};

// A tensor that belongs to a model and is not trained, such as the running statistics of batch
// norm: it lies in checkpoints among the parameters, and has no gradient and no moments.
class State {
 public:
  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  // float32; whoever holds the handle may write. Valid after ParameterSet::Finalize.
  const Tensor& value() const;

 private:
  friend class ParameterSet;
  std::string name_;
  Shape shape_;
  Init init_{};
  Tensor value_;
};

class ParameterSet;

// A name prefix under which a module declares its parameters.
class ParameterScope {
 public:
  ParameterScope operator/(absl::string_view name) const;  // "h" / "3" gives "h.3"
  // Declares `<prefix>.<name>`. The reference is stable for the life of the set.
  Parameter& Add(absl::string_view name, Shape shape, Init init, Decay decay) const;
  State& AddState(absl::string_view name, Shape shape, Init init) const;
  Device device() const;  // of the set

 private:
  friend class ParameterSet;
  ParameterScope(ParameterSet* set, std::string prefix) : set_(set), prefix_(std::move(prefix)) {}
  ParameterSet* set_;
  std::string prefix_;
};

// A run of parameters of one decay group, as flat float32 vectors of equal length. Parameters lie
// in the reverse order of their declaration, the order in which backward finishes their gradients.
struct Bucket {
  Decay decay;
  std::vector<Parameter*> parameters;
  std::vector<int64_t> offsets;  // of each parameter, in elements
  Tensor values;                 // [n], n padded with zeros to a multiple of 128
  Tensor gradient;               // [n]; allocated with the first StartStep
  Tensor compute;                // [n] bfloat16 copy; undefined unless asked for
};

class ParameterSet {
 public:
  ParameterSet(Device device, uint64_t seed) : device_(device), seed_(seed) {}
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  ParameterScope Root() { return ParameterScope(this, ""); }

  // Lays out the buckets and draws the initial values. `compute_dtype` kBFloat16 adds the copies.
  void Finalize(DType compute_dtype = DType::kFloat32);
  bool finalized() const { return finalized_; }

  // Begins an update: the first gradient written into each cell sets it. Touches no memory.
  void StartStep();
  // After the update's last backward: zero gradients for trained parameters that took no part.
  void ZeroUnwrittenGradients();
  // Brings the bfloat16 copies in line with the values (after loading a checkpoint).
  void RefreshComputeCopies();

  // In order of declaration.
  const std::deque<Parameter>& parameters() const { return parameters_; }
  const std::deque<State>& states() const { return states_; }
  Parameter* Find(absl::string_view name);
  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int64_t element_count() const;  // without padding
  Device device() const { return device_; }

 private:
  friend class ParameterScope;
  Parameter& Add(std::string name, Shape shape, Init init, Decay decay);
  State& AddState(std::string name, Shape shape, Init init);
  void ClaimName(const std::string& name);
  void BindGradients();

  Device device_;
  uint64_t seed_;
  bool finalized_ = false;
  std::deque<Parameter> parameters_;
  std::deque<State> states_;
  absl::flat_hash_map<std::string, Parameter*> by_name_;  // null for a state
  std::vector<Bucket> buckets_;
};

}  // namespace tost

#endif  // TOST_AUTOGRAD_PARAMETER_H_
