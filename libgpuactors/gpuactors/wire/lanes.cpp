#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/transport/pipe.hpp>

#include <mutex>

namespace gpuactors {

void Lanes::add(const caf::node_id& node, std::shared_ptr<transport::Pipe> pipe) {
  std::function<void(const caf::node_id&)> added;
  {
    const std::unique_lock lock{mutex_};
    pipes_[node] = std::move(pipe);
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
  if (const auto found = pipes_.find(node); found != pipes_.end() && found->second.get() == pipe)
    pipes_.erase(found);
}

std::shared_ptr<transport::Pipe> Lanes::find(const caf::strong_actor_ptr& to) const {
  if (to == nullptr || to->node() == system_.node() || !caf_version::is_reachable(to))
    return nullptr;
  const std::shared_lock lock{mutex_};
  const auto found = pipes_.find(to->node());
  return found == pipes_.end() ? nullptr : found->second;
}

caf_version::LinkBuffer& Lanes::scratch() {
  thread_local caf_version::LinkBuffer buffer;
  return buffer;
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
