// Tensor: a contiguous block of elements with a shape, shared by its handles.
#ifndef TOST_AUTOGRAD_TENSOR_H_
#define TOST_AUTOGRAD_TENSOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "autograd/base/dtype.h"
#include "autograd/device.h"
#include "autograd/shape.h"

namespace tost {

class Grad;
using GradPtr = std::shared_ptr<Grad>;

// Owns bytes on a device and returns them when the last handle goes.
class Buffer {
 public:
  Buffer(size_t size, Device device);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* bytes() const { return bytes_; }  // null: the device was out of memory
  size_t size() const { return size_; }
  Device device() const { return device_; }
  // Rises whenever somebody asks to write. Values saved for backward remember it.
  uint64_t version() const { return version_; }
  void BumpVersion() { ++version_; }

 private:
  std::byte* bytes_;
  size_t size_;
  Device device_;
  uint64_t version_ = 0;
};

// A cheap handle: copying shares the buffer. A tensor does not change once an op has produced it;
// only kernels (filling their own fresh output), optimizers and `Grad::Write` write through
// `mutable_data`, and a write into something that backward still needs is caught there.
class Tensor {
 public:
  Tensor() = default;  // undefined: an absent operand

  static Tensor Empty(Shape shape, DType dtype, Device device = Device::Cpu());
  static Tensor Zeros(Shape shape, DType dtype, Device device = Device::Cpu());
  // Copies `values` (one per element, row-major) to the device; the dtype follows T.
  template <class T>
  static Tensor FromHost(Shape shape, std::span<const T> values, Device device = Device::Cpu());
  template <class T>
  static Tensor FromHost(Shape shape, const std::vector<T>& values, Device device = Device::Cpu()) {
    return FromHost(std::move(shape), std::span<const T>(values), device);
  }
  static Tensor Scalar(double value, DType dtype = DType::kFloat32, Device device = Device::Cpu());

  bool defined() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const;
  int64_t numel() const { return shape_.numel(); }

  // Device pointers to the first element; T must be the dtype.
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(Bytes(kDTypeOf<T>));
  }
  template <class T>
  T* mutable_data() {
    buffer_->BumpVersion();
    return reinterpret_cast<T*>(Bytes(kDTypeOf<T>));
  }
  const std::byte* raw() const { return Bytes(dtype_); }
  std::byte* mutable_raw() {
    buffer_->BumpVersion();
    return Bytes(dtype_);
  }

  // Copies to the host, converting to T (float, double or int32_t); synchronises.
  template <class T = float>
  std::vector<T> ToHost() const;
  // The single element of a one-element tensor.
  double Item() const;
  // The same values on another device, as a constant; the tensor itself where it is there already.
  // Towards a device the host does not wait, towards the host it does.
  Tensor To(Device device) const;

  // Same elements, other extents; shares the buffer and the gradient cell.
  Tensor Reshaped(Shape shape) const;
  // Rows [first, first + rows) of the leading extent; shares the buffer, no gradient flows.
  Tensor Slice(int64_t first, int64_t rows) const;
  // Elements [first, first + shape.numel()) of the flat buffer under a new shape; no gradient
  // flows.
  Tensor View(int64_t first, Shape shape) const;

  const GradPtr& grad() const { return grad_; }  // null: a constant
  Tensor Detached() const;                       // the same value as a constant
  Tensor WithGrad(GradPtr grad) const;

  // True when this is the only handle on the bytes.
  bool UniquelyOwned() const { return buffer_.use_count() == 1; }
  uint64_t version() const { return buffer_->version(); }

 private:
  std::byte* Bytes(DType dtype) const {
    TOST_CHECK(buffer_ != nullptr) << "use of an undefined tensor";
    TOST_CHECK(dtype == dtype_) << "tensor of " << Name(dtype_) << " read as " << Name(dtype);
    return buffer_->bytes() + offset_ * static_cast<int64_t>(SizeOf(dtype_));
  }

  Shape shape_;
  DType dtype_ = DType::kFloat32;
  std::shared_ptr<Buffer> buffer_;
  int64_t offset_ = 0;
  GradPtr grad_;
};

// `value` as a leaf: a tensor whose gradient a backward pass leaves in `grad()->value()`.
Tensor Leaf(const Tensor& value);

// A copy of `x` in another floating type, converted on the host wherever x lies (ops::Cast converts
// on the device). No gradient flows.
Tensor Converted(const Tensor& x, DType dtype);

}  // namespace tost

#endif  // TOST_AUTOGRAD_TENSOR_H_
