// Computes what will be asked for next while its user is busy with what was asked for last.
#ifndef TOST_DATA_PREFETCHER_H_
#define TOST_DATA_PREFETCHER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tost::data {

// Values of a pure function of a number, usually asked for in ascending order. Each worker thread
// makes one of the coming values, so as many lie ready at most as there are workers.
template <class Value>
class Prefetcher {
 public:
  using Make = std::function<absl::StatusOr<Value>(int64_t number)>;

  // `make` is called from the workers, for different numbers at a time.
  Prefetcher(Make make, int workers) : make_(std::move(make)), depth_(workers) {
    for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { Work(); });
  }

  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The value of `number`; number + 1 and those after it are begun. Any other number than the one
  // after the last is as right, and waits.
  absl::StatusOr<Value> Take(int64_t number) {
    std::unique_lock lock(mutex_);
    if (number != next_) StartAt(number);
    changed_.wait(lock, [&] { return ready_.contains(number); });
    absl::StatusOr<Value> value = std::move(ready_.at(number));
    ready_.erase(number);
    next_ = number + 1;
    changed_.notify_all();
    return value;
  }

 private:
  void StartAt(int64_t number) {
    ++order_;
    ready_.clear();
    next_ = begun_ = number;
    changed_.notify_all();
  }

  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || (next_ >= 0 && begun_ < next_ + depth_); });
      if (stopping_) return;
      const int64_t number = begun_++, order = order_;
      lock.unlock();
      absl::StatusOr<Value> value = make_(number);
      lock.lock();
      if (order != order_) continue;  // asked for others meanwhile
      ready_.emplace(number, std::move(value));
      changed_.notify_all();
    }
  }

  const Make make_;
  const int64_t depth_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  int64_t next_ = -1;   // the number that should be asked for next; -1: none yet
  int64_t begun_ = -1;  // the first number that no worker has begun
  int64_t order_ = 0;   // counts the jumps of `next_`, so that late values are told apart
  std::map<int64_t, absl::StatusOr<Value>> ready_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tost::data

#endif  // TOST_DATA_PREFETCHER_H_
