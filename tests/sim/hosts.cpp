#include <gpuactors/base/limits.hpp>

#include <sim/hosts.hpp>

#include <algorithm>

namespace simulation {

namespace {

using namespace std::chrono_literals;

/// How often connections are looked at; what is sent takes as long at most.
constexpr auto beat = 100ms;

} // namespace

void Hosts::run(Duration time) {
  const auto end = now_ + time;
  while (!due_.empty() && due_.begin()->first.first <= end) {
    auto next = due_.extract(due_.begin());
    now_ = next.key().first;
    next.mapped()();
  }
  now_ = end;
}

void Hosts::after(Duration wait, std::function<void()> what) {
  due_.emplace(std::pair{now_ + wait, ++count_}, std::move(what));
}

void Hosts::after(Process& process, Duration wait, std::function<void()> what) {
  after(wait, [&process, life = process.life, what = std::move(what)] {
    if (process.alive && process.life == life)
      act(process, what);
  });
}

void Hosts::act(Process& process, std::function<void()> what) {
  if (process.frozen)
    process.late.push_back(std::move(what));
  else
    what();
}

void Hosts::start(Process& process) {
  ++process.life;
  process.alive = true;
  process.frozen = false;
  process.listens = false;
  process.late.clear();
  silent_.erase(process.host);
}

void Hosts::kill(Process& process) {
  process.alive = false;
  process.listens = false;
  process.late.clear();
}

void Hosts::freeze(Process& process) {
  process.frozen = process.alive;
}

void Hosts::thaw(Process& process) {
  if (!process.frozen)
    return;
  process.frozen = false;
  auto late = std::exchange(process.late, {});
  // Its threads go on in any order, and what came meanwhile is as new to them.
  if (below(2) == 0)
    std::shuffle(late.begin(), late.end(), random_);
  const auto life = process.life;
  for (auto& what : late)
    if (process.alive && process.life == life)
      what();
}

void Hosts::power_off(std::size_t host, const std::vector<Process*>& processes) {
  for (auto* process : processes)
    if (process->host == host)
      kill(*process);
  silent_.insert(host);
}

void Hosts::dial(Process& from, Process& to, std::function<void(LinkPtr)> done) {
  try_to_connect(from, to, now_ + limits::connect_timeout, done);
}

void Hosts::try_to_connect(Process& from, Process& to, TimePoint deadline, const std::function<void(LinkPtr)>& done) {
  after(from, between(1ms, beat), [this, &from, &to, deadline, done] {
    const bool is_reached = passes(from.host, to.host) && passes(to.host, from.host) && silent_.count(to.host) == 0;
    if (is_reached && to.alive && !to.frozen && to.listens && now_ <= deadline) {
      auto link = std::make_shared<Link>();
      link->ends[0] = {&from, from.life, true, now_, {}, {}};
      link->ends[1] = {&to, to.life, true, now_, {}, {}};
      tend(link);
      return done(link);
    }
    if (now_ >= deadline || (is_reached && !(to.alive && to.frozen) && !to.listens))
      return done(nullptr);
    try_to_connect(from, to, deadline, done);
  });
}

void Hosts::send(const LinkPtr& link, const Process& from, std::function<void()> arrives) {
  if (link->of(from).open)
    link->other(from).coming.push_back(std::move(arrives));
}

void Hosts::close(const LinkPtr& link, const Process& by) {
  link->of(by).open = false;
}

void Hosts::tend(const LinkPtr& link) {
  after(beat, [this, link] {
    auto& [one, two] = link->ends;
    deliver(link, one, two);
    deliver(link, two, one);
    if ((one.open && one.process->life == one.life && one.process->alive)
        || (two.open && two.process->life == two.life && two.process->alive))
      tend(link);
  });
}

void Hosts::deliver(const LinkPtr& link, Link::End& from, Link::End& to) {
  const auto lives = [](const Link::End& end) { return end.process->alive && end.process->life == end.life; };
  if (!to.open || !lives(to))
    return;
  const bool arrives = passes(from.process->host, to.process->host) && silent_.count(from.process->host) == 0;
  auto& receiver = *to.process;
  if (arrives && lives(from) && !from.process->frozen)
    to.heard = receiver.frozen ? to.heard : now_;
  if (arrives)
    for (auto& what : std::exchange(to.coming, {}))
      act(receiver, [link, &to, what = std::move(what)] {
        if (to.open)
          what();
      });
  // Its process is gone, it has closed it, or nothing was heard for too long.
  const bool is_closed = arrives && (!lives(from) || !from.open);
  if (receiver.frozen || (!is_closed && now_ - to.heard <= link_timeout_))
    return;
  to.open = false;
  if (to.lost)
    to.lost();
}

} // namespace simulation
