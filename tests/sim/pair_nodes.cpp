// The nodes of two brokers, as far as it matters which broker they have.
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>
#include <sim/pair.hpp>

namespace simulation {

using namespace std::chrono_literals;

void Pair::start(Node& node) {
  hosts_.start(node.process);
  node.turns = DialTurns{2};
  node.link = nullptr;
  node.broker = nullptr;
  dial(node);
}

void Pair::dial(Node& node) {
  auto& at = brokers_[node.turns.at()];
  hosts_.dial(node.process, at.process, [this, &node, &at](const Hosts::LinkPtr& link) {
    if (link == nullptr)
      return redial(node, false);
    node.turns.connected();
    node.link = link;
    link->of(node.process).lost = [this, &node, end = &link->of(node.process)] {
      if (node.link != nullptr && &node.link->of(node.process) == end)
        redial(node, false);
    };
    reg(node, at);
  });
}

void Pair::redial(Node& node, bool refused) {
  if (node.link != nullptr)
    hosts_.close(node.link, node.process);
  node.link = nullptr;
  node.broker = nullptr;
  const auto pause = refused ? node.turns.refused(hosts_.random()) : node.turns.lost(hosts_.random());
  hosts_.after(node.process, pause, [this, &node] { dial(node); });
}

void Pair::reg(Node& node, Broker& at) {
  const auto answered = std::make_shared<bool>(false);
  const auto finish = [this, &node, &at, link = node.link, answered](bool taken) {
    if (std::exchange(*answered, true) || node.link != link)
      return;
    if (!taken)
      return redial(node, true);
    node.broker = &at;
  };
  hosts_.send(node.link, node.process, [this, &node, &at, link = node.link, finish] {
    if (at.standby)
      at.standby->asked(node.process.name, hosts_.now());
    const bool serves = at.part == Part::serves;
    if (serves)
      registered(at, node, link);
    hosts_.send(link, at.process, [finish, serves] { finish(serves); });
  });
  hosts_.after(node.process, link_timeout, [finish] { finish(false); });
}

void Pair::registered(Broker& broker, Node& node, const Hosts::LinkPtr& link) {
  broker.nodes[node.process.name] = link;
  link->of(broker.process).lost = [&broker, name = node.process.name, end = &link->of(broker.process)] {
    const auto found = broker.nodes.find(name);
    if (found != broker.nodes.end() && &found->second->of(broker.process) == end)
      broker.nodes.erase(found);
  };
}

} // namespace simulation
