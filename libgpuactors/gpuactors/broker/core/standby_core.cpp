#include <gpuactors/broker/core/standby_core.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

namespace {

std::set<std::string> with(std::set<std::string> nodes, const std::set<std::string>& more) {
  nodes.insert(more.begin(), more.end());
  return nodes;
}

} // namespace

StandbyCore::StandbyCore(std::shared_ptr<DesiredState> store, BrokerRole role, Options options, TimePoint now)
  : store_(std::move(store)), role_(std::move(role)), options_(std::move(options)),
    copy_(store_, options_.address, role_.term, role_.has_state()),
    succession_(options_.rules, with(role_.nodes, options_.nodes), now), looked_(now) {
  if (role_.has_state())
    succession_.copied();
}

StandbyCore::Step StandbyCore::answered(const Result<v1::StateChanges>& answer, TimePoint now) {
  Step step;
  Result<bool> more = false;
  if (answer) {
    more = take(*answer, step, now);
  } else if (const auto code = answer.error().code(); code == Errc::stale_epoch) {
    // It stands by, too. `followed` decides, unless it follows another one.
    succession_.answered(succession_.nodes(), now);
    follows_ = false;
    if (answer.error().message() != said_)
      step.notice = said_ = answer.error().message();
  } else if (is_loss(code) || code == Errc::unavailable || code == Errc::deadline_exceeded) {
    step.next = Step::Next::dial;
    step.why = code == Errc::deadline_exceeded ? Error{code, "it gave no answer in time"} : answer.error();
  } else if (code == Errc::unsupported || code == Errc::already_exists) {
    failure_ = answer.error(); // `look` tells it
  } else if (answer.error().message() != said_) {
    // It is there, and a new connection would lead to it again, at once.
    step.notice = said_ = answer.error().message();
  }
  // Of a later revision: nothing of it may be dropped here.
  if (!more && more.error().code() == Errc::unsupported)
    failure_ = more.error();
  if (!more) {
    auto what = fmt::format("the copy of its state: {}", more.error().message());
    if (what != said_)
      step.notice = said_ = std::move(what);
  } else if (*more) {
    step.next = Step::Next::ask;
  }
  return step;
}

Result<bool> StandbyCore::take(const v1::StateChanges& changes, Step& step, TimePoint now) {
  std::set<std::string> nodes{changes.nodes().begin(), changes.nodes().end()};
  // One that has just begun does not know its nodes yet.
  if (changes.settling())
    nodes = with(std::move(nodes), succession_.nodes());
  // Whatever becomes of the copy: it is alive.
  succession_.answered(std::move(nodes), now);
  if (role_.has_state() && role_.lineage != changes.lineage()) {
    failure_ = Error{Errc::invalid_argument,
                     fmt::format("the broker at {0} has the state of another cluster, or of this one anew, without "
                                 "what is in the store here: to follow it all the same, remove that file and start "
                                 "this one with --standby-of {0}",
                                 options_.active)};
    return fail(*failure_);
  }
  if (role_.nodes != succession_.nodes()) {
    role_.nodes = succession_.nodes();
    GPUACTORS_TRY(keep_nodes(*store_, role_.nodes));
  }
  GPUACTORS_LET(more, copy_.take(changes));
  if (more || !copy_.is_complete())
    return more;
  role_.lineage = changes.lineage();
  succession_.copied(now);
  is_cut_off_ = false;
  if (!std::exchange(follows_, true))
    step.notice = "follows the active broker: it has a copy of its state";
  return more;
}

std::optional<std::string> StandbyCore::unreachable(const Error& why) {
  follows_ = false;
  // The two do not understand each other, and will not.
  if (why.code() == Errc::unsupported)
    failure_ = why;
  // Why it ends is said then.
  if (failure_ || std::exchange(is_cut_off_, true))
    return std::nullopt;
  return fmt::format("the broker at {} does not answer: {}{}", options_.active, why.message(),
                     role_.has_state() ? "; the copy of its state stays what it is" : "");
}

void StandbyCore::followed(const v1::FollowState& by) {
  if (by.address() == options_.active && goes_first(question(), by))
    is_first_ = true;
}

std::optional<Result<std::string>> StandbyCore::look(TimePoint now) {
  if (now - std::exchange(looked_, now) > options_.rules.patience)
    succession_.stood_still(now);
  if (failure_)
    return fail(*failure_);
  if (is_first_)
    return std::string{"it stands by for this one, and has no later state"};
  if (!succession_.is_due(now))
    return std::nullopt;
  return succession_.describe(now);
}

} // namespace gpuactors
