#include "millrace/device/thread_executor.hpp"

#include <condition_variable>
#include <exception>
#include <thread>
#include <utility>

namespace millrace {
namespace {

// What a sleeping thread may oversleep: spent spinning instead.
constexpr std::chrono::microseconds kSpin{100};

class ThreadTask final : public Executor::Task {
 public:
  explicit ThreadTask(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          try {
            body();
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  ~ThreadTask() override {
    if (thread_.joinable()) thread_.join();
  }

  void join() override {
    if (thread_.joinable()) thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  std::thread thread_;
};

class ThreadCondition final : public Condition {
 public:
  void wait(std::unique_lock<std::mutex>& lock) override { condition_.wait(lock); }
  void notify_all() override { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace

ThreadExecutor::ThreadExecutor() : epoch_(std::chrono::steady_clock::now()) {}

std::unique_ptr<Executor::Task> ThreadExecutor::spawn(std::string, std::function<void()> body) {
  return std::make_unique<ThreadTask>(std::move(body));
}

std::unique_ptr<Condition> ThreadExecutor::make_condition() {
  return std::make_unique<ThreadCondition>();
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
