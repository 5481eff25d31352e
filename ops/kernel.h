// Kernel slots: one function per device type behind one name.
#ifndef TOST_OPS_KERNEL_H_
#define TOST_OPS_KERNEL_H_

#include <type_traits>
#include <utility>

#include "autograd/base/errors.h"
#include "autograd/device.h"
#include "autograd/tensor.h"

namespace tost::ops {

// A kernel for one type of device. Called as the function itself; tensors that live elsewhere fail
// a CHECK, since a device would read the host's memory and the other way round.
template <class Fn>
class KernelOn;
template <class... Parameters>
class KernelOn<void(Parameters...)> {
 public:
  using Fn = void(Parameters...);

  KernelOn(const char* name, DeviceType device, Fn* fn) : name_(name), device_(device), fn_(fn) {}

  void operator()(Parameters... arguments) const {
    (Require(arguments), ...);
    fn_(std::forward<Parameters>(arguments)...);
  }

  // The function, for a device that computes with another's.
  Fn* function() const { return fn_; }

 private:
  template <class Argument>
  void Require(const Argument& argument) const {
    if constexpr (std::is_convertible_v<const Argument&, const Tensor&>) {
      const Tensor& tensor = argument;
      TOST_CHECK(!tensor.defined() || tensor.device().type == device_)
          << name_ << " on " << Device{device_}.ToString() << " got a tensor " << tensor.shape()
          << " on " << tensor.device().ToString() << ": move it with Tensor::To";
    }
  }

  const char* name_;
  DeviceType device_;
  Fn* fn_;
};

// Born with the CPU's implementation; another device installs its own before the first step. The op
// that calls a kernel refers to its slot, so neither initialisation order nor the linker can lose
// it.
//
//   constinit Kernel<GeluFn> gelu_kernel{"gelu", &cpu::Gelu};
//   gelu_kernel.On(x.device().type)(x, y);
template <class Fn>
class Kernel {
 public:
  using Function = Fn;

  constexpr Kernel(const char* name, Fn* cpu) : name_(name), on_{cpu} {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const char* name() const { return name_; }
  void Install(DeviceType device, Fn* fn) { on_[static_cast<int>(device)] = fn; }
  KernelOn<Fn> On(DeviceType device) const {
    Fn* fn = on_[static_cast<int>(device)];
    TOST_CHECK(fn != nullptr) << name_ << " has no kernel for " << Device{device}.ToString();
    return {name_, device, fn};
  }

 private:
  const char* name_;
  Fn* on_[kDeviceTypes];
};

}  // namespace tost::ops

#endif  // TOST_OPS_KERNEL_H_
