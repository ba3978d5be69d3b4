#include <gpuactors/base/error.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/utf8.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <type_traits>

namespace gpuactors {

namespace {

struct Row {
  Errc code;
  Remedy remedy;
  std::string_view name;
};

// The one table of codes: names, numbers (by the enum) and remedies are read from here.
constexpr std::array rows = {
    Row{Errc::none, Remedy::none, "none"},
    Row{Errc::no_capacity, Remedy::wait, "no_capacity"},
    Row{Errc::queue_full, Remedy::wait, "queue_full"},
    Row{Errc::unavailable, Remedy::wait, "unavailable"},
    Row{Errc::infeasible, Remedy::give_up, "infeasible"},
    Row{Errc::invalid_argument, Remedy::give_up, "invalid_argument"},
    Row{Errc::unsupported, Remedy::give_up, "unsupported"},
    Row{Errc::not_found, Remedy::give_up, "not_found"},
    Row{Errc::already_exists, Remedy::give_up, "already_exists"},
    Row{Errc::permission_denied, Remedy::give_up, "permission_denied"},
    Row{Errc::lease_expired, Remedy::reacquire, "lease_expired"},
    Row{Errc::lease_revoked, Remedy::reacquire, "lease_revoked"},
    Row{Errc::stale_epoch, Remedy::reacquire, "stale_epoch"},
    Row{Errc::cancelled, Remedy::reacquire, "cancelled"},
    Row{Errc::deadline_exceeded, Remedy::reacquire, "deadline_exceeded"},
    Row{Errc::out_of_memory, Remedy::fail_task, "out_of_memory"},
    Row{Errc::launch_failed, Remedy::fail_task, "launch_failed"},
    Row{Errc::copy_failed, Remedy::fail_task, "copy_failed"},
    Row{Errc::task_failed, Remedy::fail_task, "task_failed"},
    Row{Errc::actor_died, Remedy::fail_task, "actor_died"},
    Row{Errc::not_begun, Remedy::fail_task, "not_begun"},
    Row{Errc::context_lost, Remedy::replace_process, "context_lost"},
    Row{Errc::device_lost, Remedy::replace_process, "device_lost"},
    Row{Errc::worker_died, Remedy::replace_process, "worker_died"},
    Row{Errc::internal, Remedy::report, "internal"},
};

const Row* find_row(Errc code) noexcept {
  for (const auto& row : rows)
    if (row.code == code)
      return &row;
  return nullptr;
}

void shorten(std::string& text) {
  const auto bytes = text.size();
  constexpr std::size_t suffix_bytes =
      40; // so that the result is not too long for the next one who makes an error of it
  text.resize(head_of(text, limits::error_text_bytes - suffix_bytes).size());
  text += fmt::format(" [{} more bytes]", bytes - text.size());
}

} // namespace

Error::Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {
  if (!is_utf8(message_))
    message_ = to_utf8(message_);
  if (message_.size() > limits::error_text_bytes)
    shorten(message_);
}

Remedy remedy_of(Errc code) noexcept {
  const auto* row = find_row(code);
  return row != nullptr ? row->remedy : Remedy::report;
}

bool is_loss(Errc code) noexcept {
  switch (code) {
  case Errc::lease_revoked:
  case Errc::actor_died:
  case Errc::context_lost:
  case Errc::device_lost:
  case Errc::worker_died:
    return true;
  default:
    return false;
  }
}

std::string_view to_string(Errc code) noexcept {
  const auto* row = find_row(code);
  return row != nullptr ? row->name : "unknown";
}

std::string_view to_string(Remedy remedy) noexcept {
  constexpr std::array names = {"none", "wait", "give_up", "reacquire", "fail_task", "replace_process", "report"};
  return names.at(static_cast<std::size_t>(remedy));
}

Errc errc_from_number(std::uint32_t number) noexcept {
  if (number > std::numeric_limits<std::underlying_type_t<Errc>>::max())
    return Errc::internal;
  const auto code = static_cast<Errc>(number);
  return find_row(code) != nullptr ? code : Errc::internal;
}

std::vector<Errc> all_errors() {
  std::vector<Errc> codes;
  for (const auto& row : rows)
    if (row.code != Errc::none)
      codes.push_back(row.code);
  return codes;
}

std::string to_string(const Error& error) {
  std::string result{to_string(error.code())};
  result += ": ";
  result += error.message();
  return result;
}

namespace detail {

void no_value(const Error& error) noexcept {
  std::fprintf(stderr, "gpuactors: the value of a Result was asked for, and it is an error: %s: %s\n",
               std::string{to_string(error.code())}.c_str(), error.message().c_str());
  std::abort();
}

void no_error() noexcept {
  std::fprintf(stderr,
               "gpuactors: the error of a Result was asked for, and it is a value: look at it with if (!result) "
               "first\n");
  std::abort();
}

} // namespace detail

} // namespace gpuactors
