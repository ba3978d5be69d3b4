#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/agent/worker.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/resource_units.hpp>

namespace gpuactors {

NodeAgent::NodeAgent(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, BrokerHandle broker,
                     const v1::Node& node)
  : AgentHandle::base(config), services_(std::move(services)), instances_(from_wire(node.resource_units())),
    broker_(std::move(broker)) {
  // nop
}

AgentHandle::behavior_type NodeAgent::make_behavior() {
  worker_ = caf::actor_cast<WorkerHandle>(
      system().spawn<Worker>(services_, caf::actor_cast<caf::strong_actor_ptr>(this), true));
  return {
      [this](const v1::StartRunner& order) { start(order); },
      [this](const v1::StartActor& order, const Payload& config) { start(order, config); },
      [this](const v1::EndLease& order) { caf_version::post(worker_, order); },
      [this](const v1::LeaseStarted& message, caf::strong_actor_ptr holder, caf::strong_actor_ptr control) {
        caf_version::post(broker_, message, std::move(holder), std::move(control));
      },
      [this](const v1::LeaseEnded& message) {
        // Gives the units back before the broker hears of the end and grants them to others.
        instances_.give_back(LeaseId{message.lease()});
        caf_version::post(broker_, message);
      },
      [this](const v1::LeaseStuck& message) { caf_version::post(broker_, message); },
      [](const v1::WorkerHello&, const caf::strong_actor_ptr&) -> caf::result<v1::Done> { return v1::Done{}; },
      [](const v1::WorkerExited&) {},
      [](const v1::PeerDown&) {},
      [](const v1::LinkChanged&, const caf::strong_actor_ptr&) {},
      [](const v1::Tick&) {},
      [](const v1::ReadLog&) -> caf::result<v1::LogLines> {
        return to_caf(Error{Errc::unsupported, "an embedded cluster has no log: its tasks and actors write to the "
                                               "output of the program"});
      },
      [this](const v1::ActorSaved& message) { caf_version::post(broker_, message); },
      [this](v1::HolderUsage message) {
        message.set_node(services_->node);
        caf_version::post(broker_, std::move(message));
      },
      [this](const v1::DeviceFault& message) { device_failed(message); },
      [this](const v1::DeviceUse& message) { device_used(message); },
      [](const v1::DrainNode&) {},
      [](const v1::Goodbye&) {},
      [](const v1::NodePrograms&) {},
  };
}

void NodeAgent::device_failed(v1::DeviceFault message) {
  message.set_node(services_->node);
  for (const auto& device : services_->devices)
    for (const auto& uuid : message.uuids())
      if (device->info().uuid == uuid)
        message.add_devices(device->info().index);
  if (message.devices().empty())
    return;
  caf_version::post(worker_, message);
  caf_version::post(broker_, std::move(message));
}

void NodeAgent::device_used(v1::DeviceUse message) {
  message.set_node(services_->node);
  for (auto& use : *message.mutable_uses())
    for (const auto& device : services_->devices)
      if (device->info().uuid == use.uuid())
        use.set_device(device->info().index);
  caf_version::post(broker_, std::move(message));
}

void NodeAgent::on_exit() {
  caf::anon_send_exit(worker_, caf::exit_reason::user_shutdown);
  worker_ = nullptr;
  broker_ = nullptr;
}

template <class Order, class... Ins>
void NodeAgent::start(Order order, const Ins&... message) {
  if (const auto refused = take_units(instances_, *order.mutable_lease()))
    caf_version::post(broker_, *refused);
  else
    caf_version::post(worker_, std::move(order), message...);
}

} // namespace gpuactors
