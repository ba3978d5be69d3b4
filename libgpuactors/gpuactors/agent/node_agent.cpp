#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/agent/worker.hpp>
#include <gpuactors/wire/errors.hpp>

namespace gpuactors {

NodeAgent::NodeAgent(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, BrokerHandle broker,
                     const std::map<std::string, Share>& resources)
  : AgentHandle::base(config), services_(std::move(services)), instances_(resources), broker_(std::move(broker)) {
  // nop
}

AgentHandle::behavior_type NodeAgent::make_behavior() {
  worker_ =
      caf::actor_cast<AgentHandle>(system().spawn<Worker>(services_, caf::actor_cast<caf::strong_actor_ptr>(this)));
  return {
      [this](const v1::StartRunner& order) { return start(order); },
      [this](const v1::StartActor& order, const Payload& config) { return start(order, config); },
      [this](const v1::EndLease& order) { return end(order); },
      [this](const v1::LeaseEnded& message) {
        instances_.give_back(LeaseId{message.lease()});
        caf_version::post(broker_, message);
      },
      [this](const v1::CancelCall& message) { caf_version::post(worker_, message); },
      [this](const v1::StreamCredit& message) { caf_version::post(worker_, message); },
      [](const v1::Tick&) {},
  };
}

void NodeAgent::on_exit() {
  caf::anon_send_exit(worker_, caf::exit_reason::user_shutdown);
  worker_ = nullptr;
  broker_ = nullptr;
}

caf::result<v1::LeaseEnded> NodeAgent::end(const v1::EndLease& order) {
  auto promise = make_response_promise<v1::LeaseEnded>();
  caf_version::ask(this, worker_, order)
      .then(
          [this, promise](v1::LeaseEnded& ended) mutable {
            // Before the broker hears of it and grants the units to others.
            instances_.give_back(LeaseId{ended.lease()});
            promise.deliver(std::move(ended));
          },
          [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

template <class Order, class... Ins>
caf::result<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr> NodeAgent::start(Order order,
                                                                                        const Ins&... message) {
  auto& lease = *order.mutable_lease();
  std::map<std::string, Share> resources;
  for (const auto& [name, units] : lease.resource_units())
    resources.emplace(name, Share{units});
  const auto instances = instances_.take(LeaseId{lease.id()}, LeaseId{lease.parent()}, resources);
  if (!instances) {
    // Nothing was started: the lease is free.
    v1::LeaseEnded ended;
    ended.set_lease(lease.id());
    ended.set_epoch(lease.epoch());
    caf_version::post(broker_, ended);
    return to_caf(instances.error());
  }
  for (const auto& [name, ids] : *instances)
    (*lease.mutable_units())[name].mutable_ids()->Add(ids.begin(), ids.end());
  auto promise = make_response_promise<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  caf_version::ask(this, worker_, order, message...)
      .then(
          [promise](v1::Started& started, caf::strong_actor_ptr& holder, caf::strong_actor_ptr& control) mutable {
            promise.deliver(std::move(started), std::move(holder), std::move(control));
          },
          [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

v1::Node describe_node(const NodeOptions& options, const std::vector<std::shared_ptr<Device>>& devices) {
  v1::Node node;
  node.set_name(options.name);
  node.set_cpu_units(options.cpus.units());
  for (const auto& [key, value] : options.labels)
    (*node.mutable_labels())[key] = value;
  for (const auto& [name, share] : options.resources)
    (*node.mutable_resource_units())[name] = share.units();
  for (const auto& device : devices) {
    const auto& info = device->info();
    auto* entry = node.add_devices();
    entry->set_index(info.index);
    entry->set_kind(std::string{to_string(info.kind)});
    entry->set_name(info.name);
    entry->set_accelerator_type(info.accelerator_type);
    entry->set_uuid(info.uuid);
    entry->set_memory_bytes(info.memory_bytes);
    entry->set_units(info.units);
  }
  return node;
}

} // namespace gpuactors
