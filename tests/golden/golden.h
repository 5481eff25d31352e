// Golden files: tensors that the official implementation produced, and the bounds to hold us to.
//
//   for (const GoldenFile& file : GoldenFiles("causal_op_")) {
//     SCOPED_TRACE(file.name());
//     const Tensor w = Leaf(file.Load("w", DType::kFloat32));
//     …
//     ExpectGolden(file, "dw", w.grad()->value());
//   }
//
// A name ("y") holds float32 values; the same name with the suffix ".f64" holds the same
// computation redone in float64 from the same inputs, which counts as the truth. This reader is on
// purpose independent of the product's own safetensors reader.
#ifndef TOST_TESTS_GOLDEN_GOLDEN_H_
#define TOST_TESTS_GOLDEN_GOLDEN_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/parameter.h"
#include "autograd/tensor.h"

namespace tost::golden {

// Where the tests compute: the CPU (cpu_device.cc), or the device of another program that is linked
// with the same tests.
Device TestDevice();

// TOST_GOLDEN_DIR, or tests/golden.
std::string GoldenFolder();

class GoldenFile {
 public:
  // Reads a safetensors file. CHECKs that it is well-formed.
  static GoldenFile Read(const std::string& path);

  const std::string& name() const { return name_; }  // file name without folder and extension
  std::vector<std::string> TensorNames() const;
  bool Has(const std::string& tensor) const { return entries_.count(tensor) > 0; }
  Shape ShapeOf(const std::string& tensor) const;
  bool IsInteger(const std::string& tensor) const;

  // Elements in row-major order, converted from whatever type the file holds (F32, F64, BF16,
  // I64, U16, U8).
  template <class T>
  std::vector<T> Values(const std::string& tensor) const;
  std::vector<double> Doubles(const std::string& tensor) const { return Values<double>(tensor); }
  std::vector<int64_t> Integers(const std::string& tensor) const { return Values<int64_t>(tensor); }
  // The first element: for losses and other single numbers.
  double Scalar(const std::string& tensor) const { return Doubles(tensor).at(0); }

  // The values on the TestDevice as a Tensor of the given type (float32, float64, bfloat16, int32).
  Tensor Load(const std::string& tensor, DType dtype) const;

  // Configuration from the file's metadata. All but HasConfig CHECK that the key exists.
  bool HasConfig(const std::string& key) const { return metadata_.count(key) > 0; }
  const std::string& Text(const std::string& key) const;
  int64_t Int(const std::string& key) const;
  double Number(const std::string& key) const;
  bool Flag(const std::string& key) const;  // "True" or "1"
  // The number that follows `phrase`, a regular expression, in the description, or `otherwise`.
  double Described(const std::string& phrase, double otherwise) const;

 private:
  struct Entry {
    std::string type;
    Shape shape;
    std::vector<char> bytes;
  };
  const Entry& EntryOf(const std::string& tensor) const;

  std::string name_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
};

// All files of a kind (name prefix), sorted by name, from GoldenFolder(). Fails the running
// test when there is none.
std::vector<GoldenFile> GoldenFiles(const std::string& prefix);

// Bounds, relative to the largest entry of the float64 truth.
struct GoldenBounds {
  // float32 results may differ from the truth by `rounding` times what the official float32 run
  // does, or by rounding · 1e-6 of the largest entry where that run happened to be closer.
  double rounding = 4;
  // float64 results repeat the truth's arithmetic in another order.
  double float64 = 1e-10;
};

// Compares a float32 or float64 result with `name` and `name`.f64.
void ExpectGolden(const GoldenFile& file, const std::string& name, const Tensor& actual,
                  const GoldenBounds& bounds = {});

// For values that were stored as float32 only: differences of up to `tolerance` times the largest
// of them.
void ExpectClose(const std::vector<double>& expected, const Tensor& actual, double tolerance,
                 const std::string& what);

// The elements of `x` but for [first, last), as a vector.
Tensor WithoutRange(const Tensor& x, int64_t first, int64_t last);

// Host values on the TestDevice.
template <class T>
Tensor OnDevice(Shape shape, const std::vector<T>& values) {
  return Tensor::FromHost(std::move(shape), values, TestDevice());
}

// Replaces all values of a float32 tensor.
void Overwrite(Tensor to, const std::vector<float>& values);

// Sets every parameter to the file's `<prefix><name>`, which must be there in the same shape.
void LoadParameters(const GoldenFile& file, const std::string& prefix, ParameterSet& params);

// The file's `param.<name>` as a leaf, whose gradient is held against `grad.<name>` at the end.
struct Weight {
  Weight(const GoldenFile& file, const std::string& parameter, DType dtype);
  void ExpectGradient(const GoldenFile& file) const;

  std::string name;
  Tensor value;
};

}  // namespace tost::golden

#endif  // TOST_TESTS_GOLDEN_GOLDEN_H_
