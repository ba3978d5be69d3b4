#include "absence.hpp"

#include <fmt/format.h>

#include <utility>

namespace serve::batching {

using gpuactors::never;
using gpuactors::TimePoint;

void Absence::begin(const std::string& why) {
  why_ = fmt::format("another one is being started, since {}", why);
}

void Absence::start_began(TimePoint when) {
  starts_.insert(when);
}

void Absence::start_over(TimePoint began) {
  if (const auto start = starts_.find(began); start != starts_.end())
    starts_.erase(start);
}

void Absence::start_failed(TimePoint now, const std::string& why) {
  why_ = fmt::format("the last start failed: {}", why);
  if (!failing_since_)
    failing_since_ = now;
}

void Absence::end() {
  failing_since_.reset();
  patience_is_over_ = false;
  closed_.reset();
}

void Absence::close(std::string why) {
  closed_ = std::move(why);
}

void Absence::open() {
  closed_.reset();
}

bool Absence::is_hopeless(TimePoint now) {
  if (due() <= now)
    patience_is_over_ = true;
  return patience_is_over_ || is_closed();
}

TimePoint Absence::due() const noexcept {
  if (patience_is_over_ || !failing_since_)
    return never;
  const auto until = gpuactors::deadline_after(*failing_since_, patience_);
  // Those that begin later are not waited for: else one would always be on its way.
  return !starts_.empty() && *starts_.begin() <= until ? never : until;
}

std::string Absence::reason() const {
  if (closed_)
    return fmt::format("takes no requests: {}", *closed_);
  return fmt::format("has no replica: {}{}", why_,
                     failing_since_ && !starts_.empty() ? "; another start is on its way" : "");
}

} // namespace serve::batching
