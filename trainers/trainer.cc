#include "trainers/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/log.h"
#include "autograd/base/parallel.h"
#include "autograd/tape.h"
#include "ops/loss.h"
#include "trainers/interrupt.h"
#include "trainers/progress.h"

namespace tost::train {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
double SecondsSince(Clock::time_point start) { return Seconds(Clock::now() - start); }

bool IsMultiple(int64_t update, int64_t every) { return every > 0 && update % every == 0; }

// The first parameter whose gradient holds a number that is not finite.
std::string FirstNonFinite(const ParameterSet& params) {
  for (const Parameter& parameter : params.parameters()) {
    if (!parameter.trained()) continue;
    for (float value : parameter.grad().value().ToHost()) {
      if (!std::isfinite(value)) return parameter.name();
    }
  }
  return "none: the sum of squares overflowed";
}

class TrainingRun {
 public:
  TrainingRun(const TrainingTask& task, const TrainerOptions& options, ParameterSet& params,
              Optimizer& optimizer, MetricsWriter& metrics)
      : task_(task), options_(options), params_(params), optimizer_(optimizer), metrics_(metrics) {}

  absl::Status Run(int64_t first_update) {
    first_update_ = first_update;
    for (int64_t update = first_update; update <= options_.steps; ++update) {
      TOST_RETURN_IF_ERROR(Start(update));
      const bool last = update == options_.steps;
      const bool stopping = PendingInterrupt() != 0;
      const bool evaluates = !stopping && (last || IsMultiple(update, options_.evaluate_every));
      const bool saves = last || stopping || IsMultiple(update, options_.checkpoint_every);
      if (evaluates || saves) TOST_RETURN_IF_ERROR(Finish());
      if (evaluates) TOST_RETURN_IF_ERROR(EvaluateAfter(update));
      if (saves) TOST_RETURN_IF_ERROR(task_.save(update));
      if (stopping && !last) {
        progress_.Clear();
        return absl::CancelledError(
            absl::StrCat("stopped by a signal after update ", update, "; everything is saved"));
      }
    }
    if (first_update > options_.steps) return EvaluateAfter(first_update - 1);
    return absl::OkStatus();
  }

 private:
  // An update that the device may still be working on.
  struct Started {
    int64_t update = 0;
    UpdatePlan plan;
    Clock::time_point start;
    double data_wait = 0;  // seconds
    Tensor loss;
  };
  struct Outcome {
    double loss = 0;
    StepResult step;
  };

  // Hands the device an update. What became of the one before is read when this one's data are
  // there and before any of its work, so that a gradient that is not finite can still be looked at.
  absl::Status Start(int64_t update) {
    const Clock::time_point start = Clock::now();
    TOST_ASSIGN_OR_RETURN(UpdatePlan plan, PlanFor(update));
    const double data_wait = SecondsSince(start);
    TOST_RETURN_IF_ERROR(Finish());
    Tensor loss = Launch(update, plan);
    started_ = {.update = update,
                .plan = std::move(plan),
                .start = start,
                .data_wait = data_wait,
                .loss = std::move(loss)};
    return absl::OkStatus();
  }

  // The first updates, which allocate what the others find again, are never captured.
  Tensor Launch(int64_t update, const UpdatePlan& plan) {
    constexpr int64_t kUpdatesBeforeCapture = 2;
    const bool captures = options_.cuda_graph && update >= first_update_ + kUpdatesBeforeCapture;
    DeviceRuntime& runtime = RuntimeOf(params_.device());
    if (captures) runtime.BeginCapture();
    Tensor loss = RunUpdate(task_, update, plan, params_, optimizer_);
    if (captures) runtime.LaunchCapture();
    return loss;
  }

  // Waits for the update that was started, if any, and reports it.
  absl::Status Finish() {
    if (!started_.has_value()) return absl::OkStatus();
    const Started started = *std::exchange(started_, std::nullopt);
    const Outcome outcome{.loss = started.loss.Item(), .step = optimizer_.Result()};
    const Clock::time_point now = Clock::now();
    const double seconds = Seconds(now - std::max(started.start, finished_));
    finished_ = now;
    training_seconds_ += seconds;
    training_items_ += started.plan.items;
    ShowProgress(started, outcome);
    if (options_.log_memory) LogMemory(started.update);
    TOST_RETURN_IF_ERROR(metrics_.Write(RecordOf(started, outcome, seconds)));
    return CheckFinite(started.update, outcome);
  }

  void ShowProgress(const Started& started, const Outcome& outcome) {
    const int64_t done = started.update - first_update_ + 1;
    const ProgressReport report{
        .update = started.update,
        .updates = options_.steps,
        .loss = outcome.loss,
        .learning_rate = task_.learning_rate(started.update),
        .gradient_norm = outcome.step.gradient_norm,
        .items_per_second = static_cast<double>(training_items_) / training_seconds_,
        .unit = task_.unit,
        .seconds_left = training_seconds_ / static_cast<double>(done) *
                        static_cast<double>(options_.steps - started.update)};
    progress_.Update(report, started.update == options_.steps);
  }

  MetricsRecord RecordOf(const Started& started, const Outcome& outcome, double seconds) const {
    MetricsRecord record{.update = started.update,
                         .kind = "train",
                         .values = {{"loss", outcome.loss},
                                    {"learning_rate", task_.learning_rate(started.update)},
                                    {"gradient_norm", outcome.step.gradient_norm},
                                    {absl::StrCat(task_.unit, "_per_second"),
                                     static_cast<double>(started.plan.items) / seconds},
                                    {"data_wait", started.data_wait},
                                    {"skipped", outcome.step.skipped ? 1 : 0}}};
    const auto& values = started.plan.values;
    record.values.insert(record.values.end(), values.begin(), values.end());
    return record;
  }

  void LogMemory(int64_t update) {
    DeviceRuntime& runtime = RuntimeOf(params_.device());
    const MemoryStatistics memory = runtime.Memory();
    runtime.ResetPeakMemory();
    progress_.Clear();
    LogInfo(absl::StrCat("update ", update, ": memory of ", params_.device().ToString(), ": live ",
                         FormatBytes(memory.live_bytes), ", peak ", FormatBytes(memory.peak_bytes),
                         ", ", memory.system_allocations, " allocations so far"));
  }

  // When data cannot be read, what has been learnt so far is saved first.
  absl::StatusOr<UpdatePlan> PlanFor(int64_t update) {
    absl::StatusOr<UpdatePlan> plan = task_.plan(update);
    if (!plan.ok() && update > first_update_) {
      TOST_RETURN_IF_ERROR(Finish());
      progress_.Clear();
      TOST_RETURN_IF_ERROR(task_.save(update - 1));
    }
    return plan;
  }

  absl::Status CheckFinite(int64_t update, const Outcome& outcome) {
    skipped_in_a_row_ = outcome.step.skipped ? skipped_in_a_row_ + 1 : 0;
    if (!outcome.step.skipped) return absl::OkStatus();
    const std::string what =
        absl::StrFormat("update %d: loss %g, gradient norm %g, first non-finite gradient: %s",
                        update, outcome.loss, outcome.step.gradient_norm, FirstNonFinite(params_));
    if (skipped_in_a_row_ >= options_.max_skipped_in_a_row) {
      return absl::InternalError(
          absl::StrCat(what, "; ", skipped_in_a_row_,
                       " updates in a row were skipped; lower --learning_rate and resume from the "
                       "last checkpoint"));
    }
    progress_.Clear();
    LogWarning(absl::StrCat(what, "; the update is skipped"));
    return absl::OkStatus();
  }

  absl::Status EvaluateAfter(int64_t update) {
    const Clock::time_point start = Clock::now();
    TOST_ASSIGN_OR_RETURN(const EvaluationOutcome outcome, task_.evaluate(update));
    progress_.Clear();
    LogInfo(absl::StrCat("after update ", update, ": ", outcome.summary, " (",
                         FormatDuration(SecondsSince(start)), ")"));
    return metrics_.Write({.update = update, .kind = "evaluation", .values = outcome.values});
  }

  const TrainingTask& task_;
  const TrainerOptions& options_;
  ParameterSet& params_;
  Optimizer& optimizer_;
  MetricsWriter& metrics_;
  ProgressLine progress_;
  int64_t first_update_ = 1;
  int64_t training_items_ = 0;
  double training_seconds_ = 0;
  int skipped_in_a_row_ = 0;
  std::optional<Started> started_;
  Clock::time_point finished_;  // when the last update was
};

}  // namespace

absl::StatusOr<int> MicroSteps(int64_t global_batch, int64_t micro_batch) {
  const int64_t global = global_batch;
  const int64_t micro = micro_batch == 0 ? global : micro_batch;
  if (global < 1 || micro < 1) {
    return absl::InvalidArgumentError("--global_batch and --micro_batch must be at least 1");
  }
  if (global % micro == 0) return static_cast<int>(global / micro);
  // The nearest divisors of the global batch, and the nearest multiples of the micro-batch.
  int64_t below = std::min(micro, global), above = micro;
  while (global % below != 0) --below;
  while (above < global && global % above != 0) ++above;
  return absl::InvalidArgumentError(
      absl::StrCat("--global_batch ", global, " is not a multiple of --micro_batch ", micro,
                   "; nearest valid: --micro_batch ", below, " or ", std::min(above, global),
                   ", or --global_batch ", std::max(micro, global / micro * micro), " or ",
                   (global / micro + 1) * micro));
}

int64_t SkippedUpdates(const CheckpointState& state) {
  const auto found = state.extra.find(kSkippedKey);
  int64_t skipped = 0;
  return found != state.extra.end() && absl::SimpleAtoi(found->second, &skipped) ? skipped : 0;
}

std::string DescribeDevice(Device device) {
  const std::string threads = absl::StrCat(ThreadCount(), " threads");
  return device == Device::Cpu() ? threads : absl::StrCat(device.ToString(), ", ", threads);
}

std::string MicroBatchAdvice(const OutOfMemory& failure, int64_t micro_batch, int64_t fixed_bytes) {
  const int64_t grown = failure.live_bytes - fixed_bytes;
  const int64_t wanted = grown + failure.asked_bytes;
  const int64_t room = grown + std::max<int64_t>(failure.free_bytes, 0);
  const double share = static_cast<double>(room) / static_cast<double>(wanted);
  const auto fitting =
      std::min(static_cast<int64_t>(static_cast<double>(micro_batch) * share), micro_batch - 1);
  const std::string fixed =
      absl::StrCat(FormatBytes(fixed_bytes), " of weights, gradients and moments");
  if (fitting < 1) {
    return absl::StrCat("not even --micro_batch 1 fits beside ", fixed,
                        "; use --recompute, --compute_dtype bfloat16 or a smaller model");
  }
  return absl::StrCat("of --micro_batch ", micro_batch, " at most ", fitting, " fit beside ", fixed,
                      "; use that or fewer, or --recompute");
}

Tensor RunUpdate(const TrainingTask& task, int64_t update, const UpdatePlan& plan,
                 ParameterSet& params, Optimizer& optimizer) {
  const double scale = 1.0 / static_cast<double>(plan.targets > 0 ? plan.targets : 1);
  Tensor loss = Tensor::Zeros({}, DType::kFloat64, params.device());
  params.StartStep();
  std::optional<OutOfMemoryAdvice> advice;
  if (plan.micro_batch > 0) {
    const int64_t fixed_bytes = RuntimeOf(params.device()).Memory().live_bytes;
    advice.emplace([&plan, fixed_bytes](const OutOfMemory& failure) {
      return MicroBatchAdvice(failure, plan.micro_batch, fixed_bytes);
    });
  }
  for (int micro_step = 0; micro_step < plan.micro_steps; ++micro_step) {
    Tape tape;
    const Tensor loss_sum = task.loss_sum(update, micro_step);
    tape.Backward(loss_sum, scale);
    ops::SumLosses(loss_sum.Detached(), scale, /*add=*/true, loss);
  }
  optimizer.Step(task.learning_rate(update));
  if (task.updated) task.updated(optimizer.scalars());
  return loss;
}

absl::Status RunTraining(const TrainingTask& task, const TrainerOptions& options,
                         int64_t first_update, ParameterSet& params, Optimizer& optimizer,
                         MetricsWriter& metrics) {
  if (options.cuda_graph && !RuntimeOf(params.device()).CanCapture()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--cuda_graph needs a CUDA device; this run computes on ", params.device().ToString()));
  }
  return TrainingRun(task, options, params, optimizer, metrics).Run(first_update);
}

}  // namespace tost::train
