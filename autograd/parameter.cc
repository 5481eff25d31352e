#include "autograd/parameter.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/parallel.h"
#include "autograd/base/philox.h"

namespace tost {
namespace {

constexpr int64_t kPadding = 128;             // elements; keeps every rank's shard aligned
constexpr int64_t kBucketElements = 8 << 20;  // 32 MiB of float32: large enough to hide latency

// FNV-1a: the same on every machine and in every build, unlike std::hash.
uint64_t HashOfName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

int64_t Padded(int64_t count) { return (count + kPadding - 1) / kPadding * kPadding; }

// Two independent standard normals (Box-Muller) from two words.
std::pair<float, float> NormalPair(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(UniformOf(a))));
  const double angle = 2 * std::numbers::pi * static_cast<double>(UniformOf(b));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

// The values of a tensor of this name.
void Fill(const Init& init, uint64_t seed, absl::string_view name, std::span<float> out) {
  const uint64_t hash = HashOfName(name);
  const RandomKey key{seed, static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(hash), 0};
  const int64_t blocks = (static_cast<int64_t>(out.size()) + 3) / 4;
  ParallelFor(blocks, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float four[4] = {init.value, init.value, init.value, init.value};
      if (init.kind != Init::Kind::kConstant) {
        const Philox4 random = RandomWords(key, block, 0);
        if (init.kind == Init::Kind::kNormal) {
          std::tie(four[0], four[1]) = NormalPair(random.word[0], random.word[1]);
          std::tie(four[2], four[3]) = NormalPair(random.word[2], random.word[3]);
          for (float& x : four) x *= init.value;
        } else {
          for (int i = 0; i < 4; ++i) four[i] = init.value * (2 * UniformOf(random.word[i]) - 1);
        }
      }
      const size_t first = static_cast<size_t>(block) * 4;
      std::copy_n(four, std::min<size_t>(4, out.size() - first), out.begin() + first);
    }
  });
}

// A float32 tensor with the values that fill(span) writes, which is not asked for them where the
// device keeps none.
template <class FillValues>
Tensor Initial(const Shape& shape, Device device, FillValues&& fill) {
  if (!RuntimeOf(device).KeepsValues()) return Tensor::Empty(shape, DType::kFloat32, device);
  std::vector<float> host(static_cast<size_t>(shape.numel()), 0.0f);
  fill(std::span(host));
  return Tensor::FromHost(shape, host, device);
}

}  // namespace

const Tensor& Parameter::value() const {
  TOST_CHECK(value_.defined()) << name_ << " has no value before ParameterSet::Finalize";
  return value_;
}

const Tensor& Parameter::In(DType dtype) const {
  return dtype == DType::kBFloat16 && compute_.defined() ? compute_ : value();
}

Grad& Parameter::grad() const {
  TOST_CHECK(trained()) << name_ << " is frozen and has no gradient";
  return *value().grad();
}

void Parameter::Freeze() {
  value_ = value().Detached();
  if (compute_.defined()) compute_ = compute_.Detached();
}

const Tensor& State::value() const {
  TOST_CHECK(value_.defined()) << name_ << " has no value before ParameterSet::Finalize";
  return value_;
}

ParameterScope ParameterScope::operator/(absl::string_view name) const {
  return ParameterScope(set_,
                        prefix_.empty() ? std::string(name) : absl::StrCat(prefix_, ".", name));
}

Parameter& ParameterScope::Add(absl::string_view name, Shape shape, Init init, Decay decay) const {
  return set_->Add((*this / name).prefix_, shape, init, decay);
}

Device ParameterScope::device() const { return set_->device(); }

State& ParameterScope::AddState(absl::string_view name, Shape shape, Init init) const {
  return set_->AddState((*this / name).prefix_, shape, init);
}

void ParameterSet::ClaimName(const std::string& name) {
  TOST_CHECK(!finalized_) << "declaring " << name << " after Finalize";
  TOST_CHECK(by_name_.emplace(name, nullptr).second)
      << "parameter " << name << " is declared twice";
}

State& ParameterSet::AddState(std::string name, Shape shape, Init init) {
  ClaimName(name);
  State& state = states_.emplace_back();
  state.name_ = std::move(name);
  state.shape_ = shape;
  state.init_ = init;
  return state;
}

Parameter& ParameterSet::Add(std::string name, Shape shape, Init init, Decay decay) {
  ClaimName(name);
  Parameter& parameter = parameters_.emplace_back();
  parameter.name_ = std::move(name);
  parameter.shape_ = shape;
  parameter.init_ = init;
  parameter.decay_ = decay;
  by_name_[parameter.name_] = &parameter;
  return parameter;
}

void ParameterSet::Finalize(DType compute_dtype) {
  TOST_CHECK(!finalized_) << "Finalize was already called";
  finalized_ = true;
  for (Decay decay : {Decay::kYes, Decay::kNo}) {
    int64_t filled = kBucketElements;  // begins a new bucket
    for (auto it = parameters_.rbegin(); it != parameters_.rend(); ++it) {
      if (it->decay_ != decay) continue;
      if (filled >= kBucketElements) {
        buckets_.push_back({.decay = decay});
        filled = 0;
      }
      buckets_.back().parameters.push_back(&*it);
      buckets_.back().offsets.push_back(filled);
      filled += it->shape_.numel();
    }
  }
  for (Bucket& bucket : buckets_) {
    const int64_t size = Padded(bucket.offsets.back() + bucket.parameters.back()->shape_.numel());
    bucket.values = Initial(Shape{size}, device_, [&](std::span<float> host) {
      for (size_t i = 0; i < bucket.parameters.size(); ++i) {
        const Parameter& parameter = *bucket.parameters[i];
        Fill(parameter.init_, seed_, parameter.name_,
             host.subspan(static_cast<size_t>(bucket.offsets[i]),
                          static_cast<size_t>(parameter.shape_.numel())));
      }
    });
    const bool copies = compute_dtype == DType::kBFloat16 && bucket.decay == Decay::kYes;
    if (copies) bucket.compute = Tensor::Empty(Shape{size}, DType::kBFloat16, device_);
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      Parameter& parameter = *bucket.parameters[i];
      parameter.value_ = Leaf(bucket.values.View(bucket.offsets[i], parameter.shape_));
      if (copies) {
        parameter.compute_ = bucket.compute.View(bucket.offsets[i], parameter.shape_)
                                 .WithGrad(parameter.value_.grad());
      }
    }
  }
  for (State& state : states_) {
    state.value_ = Initial(state.shape_, device_, [&](std::span<float> host) {
      Fill(state.init_, seed_, state.name_, host);
    });
  }
  RefreshComputeCopies();
}

void ParameterSet::BindGradients() {
  for (Bucket& bucket : buckets_) {
    bucket.gradient = Tensor::Zeros(bucket.values.shape(), DType::kFloat32, device_);
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const Parameter& parameter = *bucket.parameters[i];
      if (!parameter.trained()) continue;
      parameter.grad().BindTo(bucket.gradient.View(bucket.offsets[i], parameter.shape_));
    }
  }
}

void ParameterSet::StartStep() {
  TOST_CHECK(finalized_) << "StartStep before Finalize";
  if (!buckets_.empty() && !buckets_[0].gradient.defined()) BindGradients();
  for (const Parameter& parameter : parameters_) {
    if (parameter.trained()) parameter.grad().Reset();
  }
}

void ParameterSet::ZeroUnwrittenGradients() {
  for (const Parameter& parameter : parameters_) {
    if (!parameter.trained() || parameter.grad().written()) continue;
    parameter.grad().Write(parameter.shape(), [&](Tensor& out, bool) {
      RuntimeOf(device_).FillZero(out.mutable_raw(),
                                  static_cast<size_t>(out.numel()) * SizeOf(out.dtype()));
    });
  }
}

void ParameterSet::RefreshComputeCopies() {
  if (!RuntimeOf(device_).KeepsValues()) return;
  for (Bucket& bucket : buckets_) {
    if (!bucket.compute.defined()) continue;
    const Tensor rounded = Converted(bucket.values, DType::kBFloat16);
    RuntimeOf(device_).Copy(bucket.compute.mutable_raw(), rounded.raw(),
                            static_cast<size_t>(rounded.numel()) * sizeof(bfloat16));
  }
}

Parameter* ParameterSet::Find(absl::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

int64_t ParameterSet::element_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.shape().numel();
  return count;
}

}  // namespace tost
