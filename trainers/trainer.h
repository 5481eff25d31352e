// The loop that all training programs share: updates, logging, evaluation, checkpoints, signals.
#ifndef TOST_TRAINERS_TRAINER_H_
#define TOST_TRAINERS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autograd/out_of_memory.h"
#include "autograd/parameter.h"
#include "trainers/metrics.h"
#include "trainers/optimizer.h"

namespace tost::train {

// One update's data, known before its first forward, so that every micro-step's gradient can be
// divided by the number of targets of the whole update.
struct UpdatePlan {
  int micro_steps = 1;
  int64_t targets = 0;      // targets that count, over all micro-steps
  int64_t items = 0;        // tokens or pictures read
  int64_t micro_batch = 0;  // sequences or pictures of a micro-step
  // What else metrics.jsonl should say of the update ("epoch", "shard").
  std::vector<std::pair<std::string, double>> values;
};

// What an evaluation found.
struct EvaluationOutcome {
  std::string summary;                                 // for people, without the update
  std::vector<std::pair<std::string, double>> values;  // for metrics.jsonl
};

// What is trained, as the loop sees it. Updates count from 1.
struct TrainingTask {
  std::string unit = "tokens";  // what UpdatePlan::items counts
  // Reads the update's data, for the calls of `loss_sum` that follow.
  std::function<absl::StatusOr<UpdatePlan>(int64_t update)> plan;
  // The sum of the losses of a micro-step's targets, recorded on the current tape.
  std::function<Tensor(int64_t update, int micro_step)> loss_sum;
  std::function<float(int64_t update)> learning_rate;
  // Called after each update with its ops::UpdateScalars on the device, by which an update that is
  // skipped must change nothing; may be empty.
  std::function<void(const Tensor& scalars)> updated;
  std::function<absl::StatusOr<EvaluationOutcome>(int64_t update)> evaluate;
  std::function<absl::Status(int64_t update)> save;
};

struct TrainerOptions {
  int64_t steps = 0;             // updates in all; 0 only evaluates
  int64_t evaluate_every = 0;    // updates; 0: at the end only
  int64_t checkpoint_every = 0;  // updates; 0: at the end only
  bool cuda_graph = false;       // hand the device each update as one graph
  bool log_memory = false;       // live and peak bytes after every update
  int max_skipped_in_a_row =
      3;  // updates whose gradient norm is not finite before the run gives up
};

// global_batch / micro_batch, a micro-batch of 0 being the whole; an error with the nearest valid
// values when that is no whole number.
absl::StatusOr<int> MicroSteps(int64_t global_batch, int64_t micro_batch);

// Runs updates first_update … options.steps (or evaluates, when there is none left), evaluates and
// saves at the end. Cancelled when a signal asked to stop: the last finished update has been saved,
// as it is when data cannot be read.
// Internal, naming the update and the first parameter at fault, when the gradient stays non-finite.
absl::Status RunTraining(const TrainingTask& task, const TrainerOptions& options,
                         int64_t first_update, ParameterSet& params, Optimizer& optimizer,
                         MetricsWriter& metrics);

// Updates that the optimizer left out because their gradient was not finite, as a checkpoint keeps
// them among its extra values.
inline constexpr char kSkippedKey[] = "skipped_updates";
int64_t SkippedUpdates(const CheckpointState& state);

// "2 threads" for the CPU, "cuda:0, 2 threads" for a device that the CPU feeds.
std::string DescribeDevice(Device device);

// What to do about memory that ran out in an update with micro-batches of so many rows, while
// `fixed_bytes` (weights, gradients, moments) were in use before any of them: the largest
// micro-batch that may fit, taking what was in use beyond these to grow with the rows. The failed
// update would have grown further, so it is a bound from above.
std::string MicroBatchAdvice(const OutOfMemory& failure, int64_t micro_batch, int64_t fixed_bytes);

// One update: all micro-steps forward and backward, then the optimizer, whose Result says what
// became of it. Returns the mean loss over the update's targets, a float64 scalar on the device.
// The host waits for nothing.
Tensor RunUpdate(const TrainingTask& task, int64_t update, const UpdatePlan& plan,
                 ParameterSet& params, Optimizer& optimizer);

}  // namespace tost::train

#endif  // TOST_TRAINERS_TRAINER_H_
