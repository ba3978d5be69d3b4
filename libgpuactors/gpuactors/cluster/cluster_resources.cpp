// Cluster: placement groups, nodes and quotas.
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>
#include <gpuactors/wire/closed.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

class GroupReply : public detail::MadeReply<PlacementGroup> {
public:
  using MadeReply::MadeReply;

  void on_reply(MessageContent& content) override {
    const auto& info = content.get_as<v1::GroupInfo>(0);
    PlacementGroup group{GroupId{info.id()}, info.name(), {}};
    for (const auto& bundle : info.bundles()) {
      auto& entry = group.bundles.emplace_back();
      entry.node = bundle.node();
      for (const auto& device : bundle.devices())
        entry.devices.push_back({device.index(), Share{device.share_units()}, device.memory_bytes()});
    }
    complete(std::move(group));
  }
};

/// Sends the broker a request that is answered with Done, and waits for that.
template <class Message>
Result<void> ask_and_wait(const std::shared_ptr<detail::ClusterCore>& core, Message message) {
  if (core == nullptr)
    return fail(cluster_closed());
  return detail::ask_done(*core, deadline_after(Clock::now(), limits::call_deadline), std::move(message)).get();
}

} // namespace

Result<PlacementGroup> Cluster::create_group(const std::vector<Options>& bundles, const GroupOptions& options) {
  return create_group_async(bundles, options).get();
}

Future<PlacementGroup> Cluster::create_group_async(const std::vector<Options>& bundles, const GroupOptions& options) {
  if (core_ == nullptr)
    return Future<PlacementGroup>::ready_with(fail(cluster_closed()));
  // The broker checks this too, but the message for it should not grow with the mistake.
  if (bundles.size() > limits::bundles_per_group)
    return Future<PlacementGroup>::ready_with(
        fail(Errc::invalid_argument, fmt::format("a placement group has {} bundles: at most {} are allowed",
                                                 bundles.size(), limits::bundles_per_group)));
  v1::SubmitGroup message;
  message.set_name(options.name);
  // Both enumerations use the same numbers.
  message.set_strategy(static_cast<v1::SubmitGroup::Strategy>(options.strategy));
  for (const auto& bundle : bundles) {
    auto request = [&]() -> Result<v1::ResourceRequest> {
      GPUACTORS_TRY(detail::check_for_bundle(bundle));
      return detail::to_request(bundle, {}, "");
    }();
    if (!request)
      return Future<PlacementGroup>::ready_with(fail(
          request.error().code(), fmt::format("bundle {}: {}", message.bundles_size(), request.error().message())));
    *message.add_bundles() = std::move(*request);
  }
  message.set_priority(options.priority);
  if (options.queue_timeout)
    message.set_queue_timeout_ms(detail::to_limit_ms(*options.queue_timeout));
  message.set_wait_for_nodes(options.wait_for_nodes);
  message.set_detached(options.detached);
  message.set_shrinks(options.shrinks);
  message.set_quota_owner(quota_owner_);
  if (parent_ && !options.detached)
    set_spawner(*message.mutable_spawner());
  message.set_client(core_->client());
  message.set_client_request(core_->next_request());
  auto reply = std::make_shared<GroupReply>(core_, message.client_request());
  reply->executor = core_->executor();
  const auto until = options.queue_timeout ? detail::answered_by(Clock::now(), *options.queue_timeout) : never;
  core_->ask_broker(reply, until, std::move(message));
  return Future<PlacementGroup>{std::move(reply)};
}

Result<void> Cluster::remove_group(GroupId group, Duration timeout) {
  auto removed = remove_group_async(group);
  auto done = timeout == Duration::max() ? removed.get() : removed.get(timeout);
  if (!done && removed.valid() && done.error().code() == Errc::deadline_exceeded)
    return fail(Errc::deadline_exceeded,
                fmt::format("placement group {} has not been removed within {:.1f} s: work in it has not ended, or the "
                            "broker is away",
                            group.value(), to_seconds(timeout)));
  return done;
}

Future<void> Cluster::remove_group_async(GroupId group) {
  if (core_ == nullptr)
    return Future<void>::ready_with(fail(cluster_closed()));
  v1::ReleaseGroup message;
  message.set_id(group.value());
  return detail::ask_done(*core_, never, std::move(message));
}

Result<void> Cluster::drain(std::string_view node, std::optional<Duration> empty_within) {
  v1::DrainNode message;
  message.set_name(std::string{node});
  if (empty_within)
    message.set_deadline_ms(detail::to_limit_ms(*empty_within));
  return ask_and_wait(core_, std::move(message));
}

Result<void> Cluster::undrain(std::string_view node) {
  v1::DrainNode message;
  message.set_name(std::string{node});
  message.set_resume(true);
  return ask_and_wait(core_, std::move(message));
}

Result<void> Cluster::set_quota(std::string_view owner, double gpus) {
  GPUACTORS_LET(limit, Share::from_double(gpus, "the quota"));
  v1::SetQuota message;
  message.set_owner(std::string{owner});
  message.set_gpu_units(limit.units());
  return ask_and_wait(core_, std::move(message));
}

Result<void> Cluster::remove_quota(std::string_view owner) {
  v1::SetQuota message;
  message.set_owner(std::string{owner});
  return ask_and_wait(core_, std::move(message));
}

} // namespace gpuactors
