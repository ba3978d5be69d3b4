#include <gpuactors/broker/core/arrivals.hpp>

#include <algorithm>

namespace gpuactors {

void Arrivals::add_ahead(const v1::HeldAhead& message) {
  auto& parts = ahead_[message.agent()];
  if (message.registration() < parts.registration)
    return; // a late part, from a connection that was lost
  if (message.registration() > parts.registration)
    parts = Parts{message.node(), message.registration(), {}};
  parts.held.insert(parts.held.end(), message.held().begin(), message.held().end());
}

Result<void> Arrivals::complete(v1::RegisterNode& message) {
  if (message.held_ahead() > 0) {
    const auto parts = ahead_.find(message.agent());
    if (parts == ahead_.end() || parts->second.registration != message.registration()
        || parts->second.held.size() != message.held_ahead())
      return fail(Errc::unavailable, "not all that the node holds has arrived: it has to register again");
    for (auto& held : parts->second.held)
      *message.add_held() = std::move(held);
  }
  std::erase_if(ahead_, [&](const auto& item) { return item.second.node == message.node().name(); });
  return {};
}

void Arrivals::add(Arrival arrival) {
  refuse(arrival.name(), arrival.message.agent(), "the node has registered again since");
  all_.push_back(std::move(arrival));
}

void Arrivals::leave(const std::string& node, std::uint64_t agent) {
  refuse(node, agent, "the node is being stopped");
}

void Arrivals::refuse(const std::string& node, std::uint64_t agent, const char* why) {
  std::erase_if(all_, [&](Arrival& arrival) {
    const bool is_refused = arrival.is_of(node, agent);
    if (is_refused)
      arrival.answer.deliver(fail(Errc::unavailable, why));
    return is_refused;
  });
}

bool Arrivals::postpone_tasks(const v1::HolderUsage& message) {
  const auto known = std::find_if(
      all_.begin(), all_.end(), [&](const Arrival& arrival) { return arrival.is_of(message.node(), message.agent()); });
  if (known == all_.end())
    return false;
  std::erase_if(known->reports,
                [](const NodeReport& report) { return std::holds_alternative<v1::HolderUsage>(report); });
  known->reports.emplace_back(message);
  return true;
}

bool Arrivals::has(const std::string& node) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Arrival& arrival) { return arrival.name() == node; });
}

} // namespace gpuactors
