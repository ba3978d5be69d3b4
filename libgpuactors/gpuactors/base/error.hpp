// What can go wrong, as values: one code that tells the caller what to do, and one sentence with the numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace gpuactors {

/// Why an operation failed. The numbers are part of the wire format: append only, never renumber.
///
/// Every code belongs to one `Remedy`; the groups below follow it.
enum class Errc : std::uint8_t {
  /// No error.
  none = 0,

  // -- wait: the same request can succeed later ------------------------------------------------

  /// The resources exist but are held by others, and the request asked not to queue.
  no_capacity = 1,
  /// A bounded queue is full; try again when some of its entries are done.
  queue_full = 2,
  /// The other side cannot be reached now, or is going away.
  unavailable = 3,

  // -- give up: the request itself must change -------------------------------------------------

  /// No registered node could ever satisfy the request.
  infeasible = 10,
  /// The input breaks a rule; the text says which one and what is allowed.
  invalid_argument = 11,
  /// This build, device or mode cannot do what was asked.
  unsupported = 12,
  /// No such task type, actor type, method, actor, lease or tensor.
  not_found = 13,
  /// The name is taken.
  already_exists = 14,

  // -- re-acquire: what the caller holds is no longer valid ------------------------------------

  /// The lease has ended.
  lease_expired = 20,
  /// The lease was taken back, for instance because its device failed.
  lease_revoked = 21,
  /// The caller speaks for an earlier holder of this lease.
  stale_epoch = 22,
  /// The caller, or the owner of the request, withdrew it.
  cancelled = 23,
  /// The answer did not come before the deadline; the work may still be running.
  deadline_exceeded = 24,

  // -- fail the task: the device and its worker go on ------------------------------------------

  /// An allocation would pass the lease's memory limit, or the device has no memory left.
  out_of_memory = 30,
  /// A kernel could not be started.
  launch_failed = 31,
  /// A transfer to, from or within a device failed.
  copy_failed = 32,
  /// The user's own code reported a failure or threw an exception.
  task_failed = 33,
  /// The actor ended before it answered.
  actor_died = 34,

  // -- replace the process: nothing in it can be trusted any more ------------------------------

  /// The device context is corrupt (a sticky error).
  context_lost = 40,
  /// The device is gone, or was never there.
  device_lost = 41,
  /// The worker process that ran the work has ended.
  worker_died = 42,

  // -- report: a bug in this library -----------------------------------------------------------

  /// An invariant of the library was broken.
  internal = 50,
};

/// What a caller should do about an error.
enum class Remedy : std::uint8_t {
  /// There is no error.
  none,
  /// Try the same again after a while.
  wait,
  /// Change the request: the same one will fail again.
  give_up,
  /// Ask for the resource anew.
  reacquire,
  /// The task failed; device and worker go on.
  fail_task,
  /// The process that reported it must be replaced.
  replace_process,
  /// A bug: report it.
  report,
};

/// Returns what a caller should do about `code`. Total over all codes. Any thread.
[[nodiscard]] Remedy remedy_of(Errc code) noexcept;

/// Returns the code's name as it is spelled in the source, for example "infeasible". Any thread.
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// Returns the remedy's name, for example "give_up". Any thread.
[[nodiscard]] std::string_view to_string(Remedy remedy) noexcept;

/// Returns the code that has this number on the wire; `Errc::internal` for a number this build does not know.
[[nodiscard]] Errc errc_from_number(std::uint8_t number) noexcept;

/// A failure: the code to act on and the sentence to show.
class Error {
public:
  Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {
    // nop
  }

  [[nodiscard]] Errc code() const noexcept {
    return code_;
  }

  /// One sentence that says what happened, with the numbers, and what would be right.
  [[nodiscard]] const std::string& message() const noexcept {
    return message_;
  }

  [[nodiscard]] Remedy remedy() const noexcept {
    return remedy_of(code_);
  }

  friend bool operator==(const Error&, const Error&) = default;

private:
  Errc code_;
  std::string message_;
};

/// Renders "infeasible: no node has 3 devices".
[[nodiscard]] std::string to_string(const Error& error);

} // namespace gpuactors
