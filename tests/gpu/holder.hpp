// A kernel that holds its place on the device, for what is done beside it.
#pragma once

#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace gpuactors::gpu {

/// What was done beside a kernel that held its place.
struct Beside {
  double ms = 0;
  /// It was not done before the kernel was let go.
  bool waited = false;

  [[nodiscard]] std::string text() const {
    return fmt::format("{:.2f} ms{}", ms, waited ? ", IT WAITED for what runs" : "");
  }
};

/// A context of its own with one kernel that holds its place. It is let go by a word in pinned memory, and not by the
/// driver: what waits may keep the driver's locks.
class Holder {
public:
  explicit Holder(Lab& lab, Share share = Share{Share::one / 4})
    : lab_(lab), context_(open(lab, share)), words_(must(context_->host_buffer(8))) {
    // Whatever its first launch takes is over before anything is measured.
    word(0) = 1;
    must(context_->stream().launch(hold, 1, words()));
    must(context_->stream().synchronize());
  }

  /// Runs `work` beside it, with so much patience.
  template <class F>
  Beside beside(F&& work, std::chrono::milliseconds most = std::chrono::seconds{2}) {
    start();
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Beside result;
    std::thread patience{[&] {
      std::unique_lock guard{mutex};
      result.waited = !changed.wait_for(guard, most, [&] { return done; });
      word(0) = 1;
    }};
    const auto end = [&] {
      {
        const std::lock_guard guard{mutex};
        done = true;
      }
      changed.notify_one();
      patience.join();
    };
    try {
      result.ms = milliseconds(work);
    } catch (...) {
      end();
      throw;
    }
    end();
    must(context_->stream().synchronize());
    return result;
  }

  /// Of the time for which a thread waits for the kernel, the part in which it keeps a processor busy.
  double busy_part() {
    const auto span = std::chrono::milliseconds{lab_.sized(300, 1)};
    start();
    std::promise<void> nobody;
    std::thread later{[&] {
      nobody.get_future().wait_for(span);
      word(0) = 1;
    }};
    const auto before = thread_seconds();
    const auto waited = milliseconds([&] { must(context_->stream().synchronize()); });
    const auto busy = 1000 * (thread_seconds() - before);
    later.join();
    return busy / std::max(waited, 1e-3);
  }

private:
  static double thread_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  }

  void start() {
    word(0) = 0;
    word(1) = 0;
    must(context_->stream().launch(hold, 1, words()));
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds{3};
    // The kernel of the driver for tests ends at once.
    while (!lab_.smoke && word(1) == 0) {
      if (std::chrono::steady_clock::now() > patience)
        throw Trouble{"the kernel that holds its place does not start"};
      std::this_thread::yield();
    }
  }

  [[nodiscard]] std::uint32_t* words() const {
    return static_cast<std::uint32_t*>(words_.data());
  }

  [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::size_t i) const {
    return std::atomic_ref{words()[i]};
  }

  Lab& lab_;
  std::unique_ptr<Context> context_;
  HostBuffer words_;
};

} // namespace gpuactors::gpu
