#include "autograd/tensor.h"

#include <utility>

#include "autograd/out_of_memory.h"
#include "autograd/tape.h"

namespace tost {
namespace {

// Calls visit(T{}) with any element type.
template <class Visit>
void VisitAny(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kUint16:
      return visit(uint16_t{});
    default:
      return VisitFloat(dtype, visit);
  }
}

template <class To, class From>
void Convert(const From* from, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

}  // namespace

Buffer::Buffer(size_t size, Device device)
    : bytes_(static_cast<std::byte*>(RuntimeOf(device).Allocate(size))),
      size_(size),
      device_(device) {}

Buffer::~Buffer() { RuntimeOf(device_).Release(bytes_, size_); }

Tensor Tensor::Empty(Shape shape, DType dtype, Device device) {
  Tensor tensor;
  const int64_t count = shape.numel();
  TOST_CHECK(count >= 0) << "shape " << shape << " has a negative extent";
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.buffer_ = std::make_shared<Buffer>(static_cast<size_t>(count) * SizeOf(dtype), device);
  if (tensor.buffer_->bytes() == nullptr) {
    FailOutOfMemory({.device = device,
                     .shape = shape,
                     .dtype = dtype,
                     .asked_bytes = static_cast<int64_t>(tensor.buffer_->size()),
                     .live_bytes = RuntimeOf(device).Memory().live_bytes,
                     .free_bytes = RuntimeOf(device).FreeBytes()});
  }
  return tensor;
}

Tensor Tensor::Zeros(Shape shape, DType dtype, Device device) {
  Tensor tensor = Empty(shape, dtype, device);
  RuntimeOf(device).FillZero(tensor.mutable_raw(),
                             static_cast<size_t>(tensor.numel()) * SizeOf(dtype));
  return tensor;
}

template <class T>
Tensor Tensor::FromHost(Shape shape, std::span<const T> values, Device device) {
  TOST_CHECK_EQ(shape.numel(), static_cast<int64_t>(values.size())) << "FromHost: " << shape;
  Tensor tensor = Empty(shape, kDTypeOf<T>, device);
  RuntimeOf(device).CopyIn(tensor.mutable_raw(), values.data(), values.size_bytes());
  return tensor;
}
template Tensor Tensor::FromHost(Shape, std::span<const float>, Device);
template Tensor Tensor::FromHost(Shape, std::span<const double>, Device);
template Tensor Tensor::FromHost(Shape, std::span<const bfloat16>, Device);
template Tensor Tensor::FromHost(Shape, std::span<const int32_t>, Device);
template Tensor Tensor::FromHost(Shape, std::span<const uint16_t>, Device);

Tensor Tensor::Scalar(double value, DType dtype, Device device) {
  return VisitFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T element = static_cast<T>(value);
    return FromHost<T>({}, std::span<const T>(&element, 1), device);
  });
}

Device Tensor::device() const {
  TOST_CHECK(buffer_ != nullptr) << "use of an undefined tensor";
  return buffer_->device();
}

template <class T>
std::vector<T> Tensor::ToHost() const {
  std::vector<T> result(static_cast<size_t>(numel()));
  VisitAny(dtype_, [&](auto zero) {
    using From = decltype(zero);
    std::vector<From> raw_values(result.size());
    RuntimeOf(device()).CopyOut(raw_values.data(), raw(), raw_values.size() * sizeof(From));
    Convert(raw_values.data(), numel(), result.data());
  });
  return result;
}
template std::vector<float> Tensor::ToHost() const;
template std::vector<double> Tensor::ToHost() const;
template std::vector<int32_t> Tensor::ToHost() const;

double Tensor::Item() const {
  TOST_CHECK_EQ(numel(), 1) << "Item: shape " << shape_;
  return ToHost<double>()[0];
}

Tensor Tensor::To(Device to) const {
  if (device() == to) return Detached();
  Tensor moved = Empty(shape_, dtype_, to);
  const size_t size = static_cast<size_t>(numel()) * SizeOf(dtype_);
  if (device() == Device::Cpu()) {
    RuntimeOf(to).CopyIn(moved.mutable_raw(), raw(), size);
  } else {
    TOST_CHECK(to == Device::Cpu()) << "from " << device() << " to " << to;
    RuntimeOf(device()).CopyOut(moved.mutable_raw(), raw(), size);
  }
  return moved;
}

Tensor Tensor::Reshaped(Shape shape) const {
  TOST_CHECK_EQ(shape.numel(), numel()) << "Reshaped: " << shape_ << " to " << shape;
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::Slice(int64_t first, int64_t rows) const {
  TOST_CHECK(first >= 0 && rows >= 0 && first + rows <= shape_[0])
      << "Slice: rows [" << first << ", " << first + rows << ") of " << shape_;
  Shape shape = shape_;
  shape.set(0, rows);
  return View(first * shape_.After(0), shape);
}

Tensor Tensor::View(int64_t first, Shape shape) const {
  TOST_CHECK(first >= 0 && first + shape.numel() <= numel())
      << "View: " << shape << " at element " << first << " of " << shape_;
  Tensor tensor = Detached();
  tensor.offset_ += first;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::Detached() const { return WithGrad(nullptr); }

Tensor Tensor::WithGrad(GradPtr grad) const {
  Tensor tensor = *this;
  tensor.grad_ = std::move(grad);
  return tensor;
}

Tensor Leaf(const Tensor& value) {
  return value.WithGrad(
      std::make_shared<Grad>(value.shape(), value.dtype(), value.device(), Grad::Kind::kLeaf));
}

Tensor Converted(const Tensor& x, DType dtype) {
  const Tensor host = x.To(Device::Cpu());
  Tensor y = Tensor::Empty(x.shape(), dtype);
  VisitFloat(x.dtype(), [&](auto from) {
    VisitFloat(dtype, [&](auto to) {
      Convert(host.data<decltype(from)>(), x.numel(), y.mutable_data<decltype(to)>());
    });
  });
  return y.To(x.device());
}

}  // namespace tost
