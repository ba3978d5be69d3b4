#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/agent/worker.hpp>

namespace gpuactors {

NodeAgent::NodeAgent(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, BrokerHandle broker)
  : AgentHandle::base(config), services_(std::move(services)), broker_(std::move(broker)) {
  // nop
}

AgentHandle::behavior_type NodeAgent::make_behavior() {
  worker_ =
      caf::actor_cast<AgentHandle>(system().spawn<Worker>(services_, caf::actor_cast<caf::strong_actor_ptr>(this)));
  using Handle = caf::strong_actor_ptr;
  return {
      [this](const v1::StartRunner& order) { return forward<v1::Started, Handle, Handle>(order); },
      [this](const v1::StartActor& order, const Payload& config) {
        return forward<v1::Started, Handle, Handle>(order, config);
      },
      [this](const v1::EndLease& order) { return forward<v1::LeaseEnded>(order); },
      [this](const v1::LeaseEnded& message) { caf_version::post(broker_, message); },
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

template <class... Outs, class... Ins>
caf::result<Outs...> NodeAgent::forward(const Ins&... message) {
  auto promise = make_response_promise<Outs...>();
  caf_version::ask(this, worker_, message...)
      .then([promise](Outs&... reply) mutable { promise.deliver(std::move(reply)...); },
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
