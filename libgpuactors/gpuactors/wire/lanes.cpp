#include <gpuactors/base/thread_cache.hpp>
#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/transport/pipe.hpp>

#include <mutex>

namespace gpuactors {

namespace {

/// Each worker process is one, and lives for minutes at least.
constexpr std::size_t servers_kept = 16'384;

} // namespace

void Lanes::add(const caf::node_id& node, std::shared_ptr<transport::Pipe> pipe, Caller caller) {
  std::function<void(const caf::node_id&)> added;
  {
    const std::unique_lock lock{mutex_};
    if (secure_ && caller.administers && servers_.insert(node).second) {
      servers_by_age_.push_back(node);
      if (servers_by_age_.size() > servers_kept) {
        servers_.erase(servers_by_age_.front());
        servers_by_age_.pop_front();
      }
    }
    entries_[node] = {std::move(pipe), std::move(caller)};
    added = added_;
  }
  if (added)
    added(node);
}

void Lanes::watch(std::function<void(const caf::node_id&)> added) {
  const std::unique_lock lock{mutex_};
  added_ = std::move(added);
}

void Lanes::remove(const caf::node_id& node, const transport::Pipe* pipe) {
  const std::unique_lock lock{mutex_};
  // A newer connection to the node may have replaced this one.
  if (const auto found = entries_.find(node); found != entries_.end() && found->second.pipe.get() == pipe)
    entries_.erase(found);
}

bool Lanes::is_anothers(const caf::node_id& node, const Caller& caller) const {
  if (!secure_)
    return false;
  const std::shared_lock lock{mutex_};
  if (const auto entry = entries_.find(node); entry != entries_.end())
    return caller.administers ? !entry->second.caller.administers : entry->second.caller != caller;
  return !caller.administers && servers_.contains(node);
}

Caller Lanes::caller_of(const caf::strong_actor_ptr& actor) const {
  if (!secure_ || actor == nullptr || actor->node() == system_.node())
    return {};
  const std::shared_lock lock{mutex_};
  const auto found = entries_.find(actor->node());
  return found == entries_.end() ? Caller{{}, false} : found->second.caller;
}

std::shared_ptr<transport::Pipe> Lanes::find(const caf::strong_actor_ptr& to) const {
  if (to == nullptr || to->node() == system_.node() || !caf_version::is_reachable(to))
    return nullptr;
  const std::shared_lock lock{mutex_};
  const auto found = entries_.find(to->node());
  return found == entries_.end() ? nullptr : found->second.pipe;
}

bool Lanes::administers(const caf::strong_actor_ptr& actor) const {
  if (!secure_ || actor == nullptr || actor->node() == system_.node())
    return true;
  const std::shared_lock lock{mutex_};
  const auto found = entries_.find(actor->node());
  return found != entries_.end() && found->second.caller.administers;
}

caf_version::LinkBuffer* Lanes::scratch() {
  return ThreadCache<caf_version::LinkBuffer, Lanes>::get();
}

bool Lanes::write(transport::Pipe& pipe, caf_version::LinkBuffer& message) {
  // Each holder has a thread and therefore a buffer: large messages are rare, so their memory is not kept.
  constexpr std::size_t kept = 16U << 10;
  const bool sent = pipe.send({reinterpret_cast<const char*>(message.data()), message.size()});
  if (message.capacity() > kept)
    caf_version::LinkBuffer{}.swap(message);
  return sent;
}

} // namespace gpuactors
