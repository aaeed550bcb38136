#include "millrace/device/thread_executor.hpp"

#include <condition_variable>
#include <exception>
#include <thread>
#include <utility>

namespace millrace {
namespace {

// A sleeping thread may wake up to this late, so the last part of `spend` spins.
constexpr std::chrono::microseconds kSpin{100};

}  // namespace

class ThreadExecutor::ThreadTask final : public Executor::Task {
 public:
  ThreadTask(const ThreadExecutor& executor, std::function<void()> body) : executor_(executor) {
    executor_.released(this);
    thread_ = std::thread([this, body = std::move(body)] { run(body); });
  }
  ~ThreadTask() override {
    if (thread_.joinable()) thread_.join();
  }

  void join() override {
    if (thread_.joinable()) thread_.join();
    executor_.acquired(this);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run(const std::function<void()>& body) {
    executor_.acquired(this);
    try {
      body();
    } catch (...) {
      error_ = std::current_exception();
    }
    executor_.released(this);
    executor_.ended();
  }

  const ThreadExecutor& executor_;
  std::exception_ptr error_;
  std::thread thread_;
};

class ThreadExecutor::ThreadCondition final : public Condition {
 public:
  explicit ThreadCondition(const ThreadExecutor& executor) : executor_(executor) {}

  void wait(std::unique_lock<std::mutex>& lock) override {
    condition_.wait(lock);
    executor_.acquired(this);
  }
  void notify_all() override {
    executor_.released(this);
    condition_.notify_all();
  }

 private:
  const ThreadExecutor& executor_;
  std::condition_variable condition_;
};

ThreadExecutor::ThreadExecutor() : epoch_(std::chrono::steady_clock::now()) {}

std::unique_ptr<Executor::Task> ThreadExecutor::spawn(std::string, std::function<void()> body) {
  return std::make_unique<ThreadTask>(*this, std::move(body));
}

std::unique_ptr<Condition> ThreadExecutor::make_condition() {
  return std::make_unique<ThreadCondition>(*this);
}

Nanoseconds ThreadExecutor::now() {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now() - epoch_);
}

void ThreadExecutor::spend(Nanoseconds host_time) {
  const auto end = std::chrono::steady_clock::now() + host_time;
  if (host_time > kSpin) std::this_thread::sleep_until(end - kSpin);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

void ThreadExecutor::yield() { std::this_thread::yield(); }

}  // namespace millrace
