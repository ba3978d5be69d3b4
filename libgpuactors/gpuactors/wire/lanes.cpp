#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/transport/pipe.hpp>

#include <mutex>

namespace gpuactors {

void Lanes::add(const caf::node_id& node, std::shared_ptr<transport::Pipe> pipe) {
  const std::unique_lock lock{mutex_};
  pipes_[node] = std::move(pipe);
}

void Lanes::remove(const caf::node_id& node, const transport::Pipe* pipe) {
  const std::unique_lock lock{mutex_};
  // There may be a newer one.
  if (const auto found = pipes_.find(node); found != pipes_.end() && found->second.get() == pipe)
    pipes_.erase(found);
}

std::shared_ptr<transport::Pipe> Lanes::find(const caf::node_id& node) const {
  const std::shared_lock lock{mutex_};
  const auto found = pipes_.find(node);
  return found == pipes_.end() ? nullptr : found->second;
}

caf_version::LinkBuffer& Lanes::scratch() {
  // A large message is rare: its memory is not kept.
  constexpr std::size_t kept = 1U << 20;
  thread_local caf_version::LinkBuffer buffer;
  if (buffer.capacity() > kept)
    caf_version::LinkBuffer{}.swap(buffer);
  return buffer;
}

bool Lanes::write(transport::Pipe& pipe, const caf_version::LinkBuffer& message) {
  return pipe.send({reinterpret_cast<const char*>(message.data()), message.size()});
}

} // namespace gpuactors
