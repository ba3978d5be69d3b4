// Errors as values: a code that tells the caller what to do, and a sentence with the numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors {

/// Why an operation failed. The numbers are part of the wire format: append only, never renumber.
///
/// Every code belongs to one `Remedy`; the groups below follow it.
enum class Errc : std::uint8_t {
  /// No error.
  none = 0,

  // -- wait: the same request can succeed later ------------------------------------------------

  /// The resources exist but others hold them, or their node is drained, and the time to wait is over.
  no_capacity = 1,
  /// A bounded queue is full; retry when some of its entries are done.
  queue_full = 2,
  /// The other side cannot be reached now, or is shutting down.
  unavailable = 3,

  // -- give up: the request itself must change -------------------------------------------------

  /// No registered node, drained or not, could ever satisfy the request.
  infeasible = 10,
  /// The input breaks a rule; the text names the rule and what is allowed.
  invalid_argument = 11,
  /// This build, device or mode cannot do what was asked.
  unsupported = 12,
  /// There is no such task type, actor type, method, actor, lease or tensor.
  not_found = 13,
  /// The name is already in use.
  already_exists = 14,
  /// The caller's certificate does not give it the right to do this.
  permission_denied = 15,

  // -- re-acquire: what the caller holds is no longer valid ------------------------------------

  /// The lease has ended.
  lease_expired = 20,
  /// The lease was revoked, for instance because its device failed.
  lease_revoked = 21,
  /// The message concerns an earlier holder of this lease.
  stale_epoch = 22,
  /// The caller, or the owner of the request, withdrew the request.
  cancelled = 23,
  /// No answer arrived before the deadline; the work may still be running.
  deadline_exceeded = 24,

  // -- fail the task: the device and its worker keep working -----------------------------------

  /// An allocation would exceed the lease's memory limit, or the device has no memory left.
  out_of_memory = 30,
  /// A kernel could not be started.
  launch_failed = 31,
  /// A transfer to, from or within a device failed.
  copy_failed = 32,
  /// User code reported a failure or threw an exception.
  task_failed = 33,
  /// The actor ended before it answered.
  actor_died = 34,
  /// The actor, or a task's runner, ended before the call began, so nothing has run. Used within the library only,
  /// which does such work elsewhere; if that is impossible, the caller gets `actor_died`.
  not_begun = 35,

  // -- replace the process: it can no longer be trusted ----------------------------------------

  /// The device context is corrupt (a sticky error).
  context_lost = 40,
  /// The device is gone, or never existed.
  device_lost = 41,
  /// The worker process that ran the work has ended.
  worker_died = 42,

  // -- report: a bug in this library -----------------------------------------------------------

  /// An invariant of the library was broken.
  internal = 50,
};

/// How a caller should react to an error.
enum class Remedy : std::uint8_t {
  /// There is no error.
  none,
  /// Retry the same request after a while.
  wait,
  /// Change the request: the same one will fail again.
  give_up,
  /// Request the resource again, if it is still needed.
  reacquire,
  /// The task failed; the device and its worker keep working.
  fail_task,
  /// The failed process must be replaced. In a cluster of processes, its node does that, and a retry may succeed.
  replace_process,
  /// A bug in this library: report it.
  report,
};

/// Returns how a caller should react to `code`. Total over all codes. Any thread.
[[nodiscard]] Remedy remedy_of(Errc code) noexcept;

/// Returns whether `code` means that work was lost with its actor, process, device or lease, rather than that it
/// failed: the same work may succeed elsewhere. `Options::max_retries` and `max_task_retries` repeat such work. Any
/// thread.
[[nodiscard]] bool is_loss(Errc code) noexcept;

/// Returns the code's name as spelled in the source, for example "infeasible". Any thread.
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// Returns the remedy's name, for example "give_up". Any thread.
[[nodiscard]] std::string_view to_string(Remedy remedy) noexcept;

/// Returns the code with this number on the wire; `Errc::internal` for a number that this build does not know.
[[nodiscard]] Errc errc_from_number(std::uint32_t number) noexcept;

/// Returns all codes but `Errc::none`, each once. Any thread.
[[nodiscard]] std::vector<Errc> all_errors();

/// A failure: a code for the program and a sentence for people.
class Error {
public:
  /// Replaces bytes of `message` that are not UTF-8, and cuts it at `limits::error_text_bytes`: the text may come from
  /// an exception of user code.
  Error(Errc code, std::string message);

  [[nodiscard]] Errc code() const noexcept {
    return code_;
  }

  /// Returns one sentence that says what happened, with the numbers, and what would be right.
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

/// Renders code and message, for example "infeasible: no node has 3 devices".
[[nodiscard]] std::string to_string(const Error& error);

} // namespace gpuactors
