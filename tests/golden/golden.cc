#include "tests/golden/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "autograd/base/errors.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tost::golden {
namespace {

template <class Stored, class T>
std::vector<T> Convert(const std::vector<char>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    if constexpr (std::is_same_v<Stored, bfloat16>) {
      values[i] = static_cast<T>(static_cast<float>(stored));
    } else {
      values[i] = static_cast<T>(stored);
    }
  }
  return values;
}

size_t StoredSize(const std::string& type) {
  if (type == "F64" || type == "I64") return 8;
  if (type == "F32") return 4;
  if (type == "U8") return 1;
  TOST_CHECK(type == "BF16" || type == "U16") << "golden files hold no " << type;
  return 2;
}

double LargestMagnitude(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// The largest difference and where it is. NaN counts as infinite.
std::pair<double, size_t> LargestDifference(const std::vector<double>& a,
                                            const std::vector<double>& b) {
  std::pair<double, size_t> worst{0, 0};
  for (size_t i = 0; i < a.size(); ++i) {
    double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) difference = INFINITY;
    if (difference > worst.first) worst = {difference, i};
  }
  return worst;
}

}  // namespace

std::string GoldenFolder() {
  const char* folder = std::getenv("TOST_GOLDEN_DIR");
  return folder != nullptr && *folder != '\0' ? folder : TOST_SOURCE_DIR "/tests/golden";
}

GoldenFile GoldenFile::Read(const std::string& path) {
  GoldenFile file;
  file.name_ = std::filesystem::path(path).stem().string();
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  uint64_t header_size = 0;
  TOST_CHECK(bytes.size() >= sizeof(header_size)) << path << " is no safetensors file";
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const size_t data_start = sizeof(header_size) + header_size;
  TOST_CHECK(header_size < bytes.size() && data_start <= bytes.size())
      << path << ": the header is longer than the file";
  const auto header = nlohmann::json::parse(bytes.begin() + sizeof(header_size),
                                            bytes.begin() + static_cast<int64_t>(data_start));
  for (const auto& [key, value] : header.items()) {
    if (key == "__metadata__") {
      file.metadata_ = value.get<std::map<std::string, std::string>>();
      continue;
    }
    Entry entry{value["dtype"], Shape(value["shape"].get<std::vector<int64_t>>()), {}};
    const auto range = value["data_offsets"].get<std::vector<uint64_t>>();
    TOST_CHECK(range[0] <= range[1] && data_start + range[1] <= bytes.size() &&
               range[1] - range[0] ==
                   static_cast<uint64_t>(entry.shape.numel()) * StoredSize(entry.type))
        << path << ": " << key << " has a wrong data range";
    entry.bytes.assign(bytes.begin() + static_cast<int64_t>(data_start + range[0]),
                       bytes.begin() + static_cast<int64_t>(data_start + range[1]));
    file.entries_.emplace(key, std::move(entry));
  }
  return file;
}

std::vector<std::string> GoldenFile::TensorNames() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const GoldenFile::Entry& GoldenFile::EntryOf(const std::string& tensor) const {
  const auto found = entries_.find(tensor);
  TOST_CHECK(found != entries_.end()) << name_ << " has no tensor " << tensor;
  return found->second;
}

Shape GoldenFile::ShapeOf(const std::string& tensor) const { return EntryOf(tensor).shape; }

bool GoldenFile::IsInteger(const std::string& tensor) const {
  return EntryOf(tensor).type == "I64";
}

template <class T>
std::vector<T> GoldenFile::Values(const std::string& tensor) const {
  const Entry& entry = EntryOf(tensor);
  if (entry.type == "F64") return Convert<double, T>(entry.bytes);
  if (entry.type == "F32") return Convert<float, T>(entry.bytes);
  if (entry.type == "I64") return Convert<int64_t, T>(entry.bytes);
  if (entry.type == "U16") return Convert<uint16_t, T>(entry.bytes);
  if (entry.type == "U8") return Convert<uint8_t, T>(entry.bytes);
  return Convert<bfloat16, T>(entry.bytes);
}

template std::vector<double> GoldenFile::Values(const std::string&) const;
template std::vector<float> GoldenFile::Values(const std::string&) const;
template std::vector<int64_t> GoldenFile::Values(const std::string&) const;
template std::vector<int32_t> GoldenFile::Values(const std::string&) const;
template std::vector<uint8_t> GoldenFile::Values(const std::string&) const;

Tensor GoldenFile::Load(const std::string& tensor, DType dtype) const {
  if (dtype == DType::kInt32) return OnDevice(ShapeOf(tensor), Values<int32_t>(tensor));
  const Tensor exact = OnDevice(ShapeOf(tensor), Values<double>(tensor));
  return dtype == DType::kFloat64 ? exact : Converted(exact, dtype);
}

const std::string& GoldenFile::Text(const std::string& key) const {
  const auto found = metadata_.find(key);
  TOST_CHECK(found != metadata_.end()) << name_ << " has no metadata " << key;
  return found->second;
}

int64_t GoldenFile::Int(const std::string& key) const { return std::stoll(Text(key)); }
double GoldenFile::Number(const std::string& key) const { return std::stod(Text(key)); }

bool GoldenFile::Flag(const std::string& key) const {
  return Text(key) == "True" || Text(key) == "true" || Text(key) == "1";
}

double GoldenFile::Described(const std::string& phrase, double otherwise) const {
  constexpr char kNumber[] = "([0-9.]+(?:e-?[0-9]+)?)";
  std::smatch match;
  const std::string& text = Text("description");
  if (!std::regex_search(text, match, std::regex(phrase + kNumber))) return otherwise;
  return std::stod(match[1]);
}

std::vector<GoldenFile> GoldenFiles(const std::string& prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) == 0 && entry.path().extension() == ".safetensors") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_FALSE(paths.empty()) << "no " << prefix << "*.safetensors in " << GoldenFolder();
  std::vector<GoldenFile> files;
  for (const std::string& path : paths) files.push_back(GoldenFile::Read(path));
  return files;
}

void ExpectGolden(const GoldenFile& file, const std::string& name, const Tensor& actual,
                  const GoldenBounds& bounds) {
  const std::vector<double> truth = file.Doubles(name + ".f64");
  ASSERT_EQ(actual.numel(), static_cast<int64_t>(truth.size())) << file.name() << ": " << name;
  double allowed = bounds.float64 * LargestMagnitude(truth);
  if (actual.dtype() != DType::kFloat64) {
    const double official = LargestDifference(file.Doubles(name), truth).first;
    allowed = bounds.rounding * std::max(official, 1e-6 * LargestMagnitude(truth));
  }
  const std::vector<double> values = actual.ToHost<double>();
  const auto [difference, at] = LargestDifference(values, truth);
  EXPECT_LE(difference, allowed) << file.name() << ": " << name << " (" << actual.dtype()
                                 << ") at element " << at << ": " << values[at] << " against "
                                 << truth[at];
}

void ExpectClose(const std::vector<double>& expected, const Tensor& actual, double tolerance,
                 const std::string& what) {
  const std::vector<double> values = actual.ToHost<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  const auto [difference, at] = LargestDifference(values, expected);
  EXPECT_LE(difference, tolerance * LargestMagnitude(expected)) << what << " at element " << at;
}

Tensor WithoutRange(const Tensor& x, int64_t first, int64_t last) {
  std::vector<float> values = x.ToHost();
  values.erase(values.begin() + first, values.begin() + last);
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::FromHost(Shape{count}, values);
}

void Overwrite(Tensor to, const std::vector<float>& values) {
  TOST_CHECK_EQ(to.numel(), static_cast<int64_t>(values.size()));
  RuntimeOf(to.device())
      .CopyIn(to.mutable_data<float>(), values.data(), values.size() * sizeof(float));
}

void LoadParameters(const GoldenFile& file, const std::string& prefix, ParameterSet& params) {
  for (const Parameter& parameter : params.parameters()) {
    ASSERT_TRUE(file.Has(prefix + parameter.name())) << parameter.name();
    ASSERT_EQ(file.ShapeOf(prefix + parameter.name()), parameter.shape()) << parameter.name();
    Overwrite(parameter.value(), file.Values<float>(prefix + parameter.name()));
  }
}

Weight::Weight(const GoldenFile& file, const std::string& parameter, DType dtype)
    : name(parameter), value(Leaf(file.Load("param." + parameter, dtype))) {}

void Weight::ExpectGradient(const GoldenFile& file) const {
  ExpectGolden(file, "grad." + name, value.grad()->value());
}

}  // namespace tost::golden
