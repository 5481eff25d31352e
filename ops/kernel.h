// Kernel slots: one function per device type behind one name.
#ifndef TOST_OPS_KERNEL_H_
#define TOST_OPS_KERNEL_H_

#include "autograd/base/errors.h"
#include "autograd/device.h"

namespace tost::ops {

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
  Fn& On(DeviceType device) const {
    Fn* fn = on_[static_cast<int>(device)];
    TOST_CHECK(fn != nullptr) << name_ << " has no kernel for " << Device{device}.ToString();
    return *fn;
  }

 private:
  const char* name_;
  Fn* on_[kDeviceTypes];
};

}  // namespace tost::ops

#endif  // TOST_OPS_KERNEL_H_
