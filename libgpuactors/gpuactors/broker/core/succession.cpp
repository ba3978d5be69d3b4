#include <gpuactors/broker/core/succession.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

Succession::Succession(Rules rules, std::set<std::string> nodes, TimePoint now)
  : rules_(rules), nodes_(std::move(nodes)), answered_(now) {
  // nop
}

void Succession::answered(std::set<std::string> nodes, TimePoint now) {
  nodes_ = std::move(nodes);
  answered_ = now;
  // Whoever had asked is there again, or asks again.
  asked_.clear();
}

void Succession::asked(const std::string& node, TimePoint now) {
  std::erase_if(asked_, [&](const auto& entry) { return now - entry.second > rules_.vote_lasts; });
  asked_[node] = now;
}

std::size_t Succession::votes(TimePoint now) const {
  return static_cast<std::size_t>(std::count_if(asked_.begin(), asked_.end(), [&](const auto& entry) {
    // Of a cluster without nodes, the first one that comes decides.
    return now - entry.second <= rules_.vote_lasts && (nodes_.empty() || nodes_.count(entry.first) > 0);
  }));
}

std::size_t Succession::needed() const {
  return rules_.votes > 0 ? rules_.votes : nodes_.size() / 2 + 1;
}

bool Succession::is_due(TimePoint now) const {
  return has_copy_ && now - answered_ > rules_.patience && votes(now) >= needed();
}

std::string Succession::describe(TimePoint now) const {
  return fmt::format("it has not answered for {:.1f} s, and {} of its {} nodes have asked here, of which {} have to",
                     to_seconds(now - answered_), votes(now), nodes_.size(), needed());
}

} // namespace gpuactors
