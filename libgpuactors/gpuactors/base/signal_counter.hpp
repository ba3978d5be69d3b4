// SignalCounter: SIGTERM and SIGINT of this process as something to wait for. Internal to the library.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <csignal>
#include <cstdint>
#include <thread>

namespace gpuactors::detail {

/// Catches SIGTERM and SIGINT while it lives. By handlers: unlike blocked or ignored signals, those do not pass to
/// programs that the process starts. SIGINT stays ignored where it was, as in background jobs of a shell. One object at
/// a time in a process.
class SignalCounter {
public:
  /// What the signals after the first one do.
  enum class Later : std::uint8_t {
    /// They are counted, too.
    counted,
    /// What they did before: they end the process, as a rule.
    as_before,
  };

  explicit SignalCounter(Later later);
  SignalCounter(const SignalCounter&) = delete;
  SignalCounter& operator=(const SignalCounter&) = delete;
  /// What the signals did before is what they do again. Those that came and were not taken are dropped. On another
  /// thread than that of the constructor, no thread's mask changes.
  ~SignalCounter();

  /// Returns the file descriptor that is readable when a signal has come; -1 if the process has none left: signals then
  /// do what they did before.
  [[nodiscard]] static int descriptor() noexcept;

  /// Takes a signal that has come. @returns false if there is none.
  bool take() noexcept;

private:
  struct sigaction terminate_before_ {};
  struct sigaction interrupt_before_ {};
  sigset_t mask_before_{};
  std::thread::id thread_ = std::this_thread::get_id();
};

} // namespace gpuactors::detail
