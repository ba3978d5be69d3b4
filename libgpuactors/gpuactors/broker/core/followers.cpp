#include <gpuactors/broker/core/followers.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

Result<Followers::News> Followers::admit(const v1::FollowState& question, TimePoint now) {
  if (question.term() > term_)
    return fail(Errc::unavailable,
                "the broker here has an older state than the one that asks: it ends when that serves");
  // Who only looks whether a broker serves has no address.
  if (question.address().empty())
    return News::none;
  const bool is_other = question.address() != address_;
  if (is_other && !address_.empty() && now - asked_ < patience_)
    return fail(Errc::already_exists, fmt::format("the broker at {} stands by already, and only one may", address_));
  asked_ = now;
  address_ = question.address();
  has_copy_ = question.has_copy();
  const bool was_lost = std::exchange(lost_, false);
  if (is_other)
    return News::another;
  return was_lost ? News::back : News::none;
}

bool Followers::is_lost(TimePoint now) {
  if (lost_ || address_.empty() || now - asked_ <= patience_)
    return false;
  return lost_ = true;
}

std::optional<v1::StandbyState> Followers::state(TimePoint now) const {
  const auto& address = address_.empty() ? expected_ : address_;
  if (address.empty())
    return std::nullopt;
  v1::StandbyState state;
  state.set_address(address);
  state.set_silent_ns((now - asked_).count());
  if (address_.empty() || now - asked_ > patience_)
    state.set_state("away");
  else
    state.set_state(has_copy_ ? "following" : "copying");
  return state;
}

} // namespace gpuactors
