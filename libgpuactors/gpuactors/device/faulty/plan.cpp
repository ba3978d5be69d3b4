// Matching calls against the rules of a plan.
#include <gpuactors/device/faulty.hpp>

namespace gpuactors::faulty {

namespace {

constexpr std::string_view unknown = "unknown";

constexpr std::string_view name_of(Call call) noexcept {
  // Without a default, so that the compiler misses a kind that has no name.
  switch (call) {
  case Call::open:
    return "open";
  case Call::memory:
    return "memory";
  case Call::make_stream:
    return "make_stream";
  case Call::synchronize:
    return "synchronize";
  case Call::make_event:
    return "make_event";
  case Call::record:
    return "record";
  case Call::wait:
    return "wait";
  case Call::query:
    return "query";
  case Call::notify:
    return "notify";
  case Call::allocate:
    return "allocate";
  case Call::copy:
    return "copy";
  case Call::fill:
    return "fill";
  case Call::launch:
    return "launch";
  case Call::gemm:
    return "gemm";
  case Call::capture:
    return "capture";
  case Call::host_memory:
    return "host_memory";
  case Call::copy_from:
    return "copy_from";
  case Call::make_current:
    return "make_current";
  case Call::compile:
    return "compile";
  case Call::attach:
    return "attach";
  case Call::shared_footprint:
    return "shared_footprint";
  case Call::make_shared_memory:
    return "make_shared_memory";
  case Call::open_shared_memory:
    return "open_shared_memory";
  }
  return unknown;
}

static_assert(name_of(static_cast<Call>(call_kinds)) == unknown, "call_kinds does not count the last kind");

Failure context_lost_failure() {
  return fail(Errc::context_lost, "the context is lost (injected)");
}

} // namespace

std::string_view to_string(Call call) noexcept {
  return name_of(call);
}

void Plan::fail_at(Call call, std::uint64_t n, Error error) {
  add({call, n, false, false, std::move(error), nullptr});
}

void Plan::fail_from(Call call, std::uint64_t n, Error error) {
  add({call, n, true, false, std::move(error), nullptr});
}

void Plan::fail_at_point(std::uint64_t n, Error error) {
  add({std::nullopt, n, false, false, std::move(error), nullptr});
}

void Plan::lose_context_at(Call call, std::uint64_t n) {
  add({call, n, false, true, std::nullopt, nullptr});
}

void Plan::delay(Call call, std::uint64_t n, std::function<void()> before) {
  add({call, n, false, false, std::nullopt, std::move(before)});
}

void Plan::add(Rule rule) {
  std::lock_guard guard{mutex_};
  rules_.push_back(std::move(rule));
}

void Plan::reset() {
  std::lock_guard guard{mutex_};
  rules_.clear();
  counts_.fill(0);
  total_ = 0;
  lost_ = false;
}

std::uint64_t Plan::calls(Call call) const {
  std::lock_guard guard{mutex_};
  return counts_[static_cast<std::size_t>(call)];
}

std::uint64_t Plan::calls() const {
  std::lock_guard guard{mutex_};
  return total_;
}

Held Plan::held() const {
  std::lock_guard guard{mutex_};
  return held_;
}

bool Plan::context_lost() const {
  std::lock_guard guard{mutex_};
  return lost_;
}

Result<void> Plan::enter(Call call) {
  std::vector<std::function<void()>> delays;
  std::optional<Error> error;
  {
    std::lock_guard guard{mutex_};
    const auto of_kind = ++counts_[static_cast<std::size_t>(call)];
    const auto of_all = ++total_;
    for (const auto& rule : rules_) {
      const auto at = rule.call ? of_kind : of_all;
      if ((rule.call && *rule.call != call) || at < rule.n || (at > rule.n && !rule.on_and_on))
        continue;
      lost_ = lost_ || rule.loses_context;
      if (rule.before)
        delays.push_back(rule.before);
      if (rule.error && !error)
        error = rule.error;
    }
  }
  for (const auto& before : delays)
    before();
  if (context_lost())
    return context_lost_failure();
  if (error)
    return fail(std::move(*error));
  return {};
}

void Plan::count(std::int64_t Held::*what, std::int64_t change) {
  std::lock_guard guard{mutex_};
  held_.*what += change;
}

} // namespace gpuactors::faulty
