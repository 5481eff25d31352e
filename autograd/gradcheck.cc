#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/philox.h"
#include "autograd/tape.h"

namespace tost {
namespace {

constexpr uint64_t kWeightSeed = 20241217;  // any fixed number: the r of Σ fn(x)·r

double Weighted(const Tensor& y, const Tensor& weights) {
  const std::vector<double> values = y.ToHost<double>(), r = weights.ToHost<double>();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * r[i];
  return sum;
}

// Gradients of Σ fn(x)·weights for the inputs in `wanted`, after `passes` backward runs whose
// gradients add up. An input that took no part has a zero gradient.
std::vector<std::vector<double>> Analytic(const TensorFunction& fn,
                                          const std::vector<Tensor>& inputs, const Tensor& weights,
                                          const std::set<size_t>& wanted, int passes,
                                          std::string& failure) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(wanted.contains(i) ? Leaf(inputs[i]) : inputs[i]);
  }
  for (int pass = 0; pass < passes; ++pass) {
    Tape tape;
    tape.BackwardFrom(fn(leaves), weights);
  }
  std::vector<std::vector<double>> gradients(inputs.size());
  for (size_t i : wanted) {
    gradients[i].assign(static_cast<size_t>(inputs[i].numel()), 0.0);
    if (!leaves[i].grad()->written()) continue;
    const Tensor& gradient = leaves[i].grad()->value();
    if (gradient.shape() != inputs[i].shape()) {
      failure = absl::StrCat("gradient of input ", i, " has shape ", gradient.shape().ToString(),
                             ", the input ", inputs[i].shape().ToString());
      continue;
    }
    gradients[i] = gradient.ToHost<double>();
  }
  return gradients;
}

double Numeric(const TensorFunction& fn, std::vector<Tensor> inputs, size_t input, size_t element,
               const Tensor& weights, double step) {
  const std::vector<double> values = inputs[input].ToHost<double>();
  const double h = step * std::max(1.0, std::abs(values[element]));
  auto at = [&](double offset) {
    std::vector<double> moved = values;
    moved[element] += offset;
    inputs[input] = Tensor::FromHost(inputs[input].shape(), moved, inputs[input].device());
    return Weighted(fn(inputs), weights);
  };
  return (at(h) - at(-h)) / (2 * h);
}

double Largest(const std::vector<double>& values) {
  double largest = 1;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// NaN counts as infinitely wrong: it compares false with everything.
double RelativeDifference(double a, double b, double scale) {
  const double difference = std::abs(a - b) / scale;
  return std::isnan(difference) ? INFINITY : difference;
}

}  // namespace

GradcheckReport Gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  GradcheckReport report;
  report.tolerance = options.tolerance;
  for (const Tensor& input : inputs) {
    TOST_CHECK(input.dtype() == DType::kFloat64) << "Gradcheck: inputs must be float64";
  }
  const Tensor y = fn(inputs);
  const Tensor weights = RandomTensor(y.shape(), kWeightSeed).To(y.device());

  std::set<size_t> all;
  for (size_t i = 0; i < inputs.size(); ++i) all.insert(i);
  const auto together = Analytic(fn, inputs, weights, all, 1, report.failure);
  const auto twice = Analytic(fn, inputs, weights, all, 2, report.failure);
  for (size_t i : all) {
    const auto alone = Analytic(fn, inputs, weights, {i}, 1, report.failure);
    const double scale = Largest(together[i]);
    for (size_t j = 0; j < together[i].size(); ++j) {
      const double analytic = together[i][j];
      const double numeric = Numeric(fn, inputs, i, j, weights, options.step);
      report.entries.push_back({static_cast<int>(i), static_cast<int64_t>(j), numeric, analytic});
      report.worst = std::max({report.worst, RelativeDifference(numeric, analytic, scale),
                               RelativeDifference(alone[i][j], analytic, scale),
                               RelativeDifference(twice[i][j], 2 * analytic, scale)});
    }
  }
  return report;
}

std::string GradcheckReport::Table() const {
  std::string table = "input element        numeric       analytic     difference\n";
  for (const Entry& entry : entries) {
    absl::StrAppendFormat(&table, "%5d %7d %14.8g %14.8g %14.3g\n", entry.input, entry.element,
                          entry.numeric, entry.analytic, entry.numeric - entry.analytic);
  }
  absl::StrAppendFormat(&table, "worst relative difference %.3g (allowed %.3g)%s%s\n", worst,
                        tolerance, failure.empty() ? "" : "; ", failure);
  return table;
}

Tensor RandomTensor(Shape shape, uint64_t seed, double low, double high) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  const RandomKey key{.seed = seed};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = low + (high - low) * static_cast<double>(Uniform(key, static_cast<int64_t>(i), 0));
  }
  return Tensor::FromHost(shape, values);
}

}  // namespace tost
