#include <gpuactors/actor/actor_thread.hpp>
#include <gpuactors/actor/posts.hpp>

namespace gpuactors {

namespace detail {

bool Posts::push(Duration wait, std::function<void()> function) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock{mutex_};
    if (closed_)
      return false;
    if (wait <= Duration::zero()) {
      ready_.push_back(std::move(function));
    } else {
      number = ++last_;
      later_.emplace(number, Later{deadline_after(Clock::now(), wait), std::move(function)});
    }
  }
  wake_(number);
  return true;
}

Duration Posts::wait_of(std::uint64_t number) const {
  const std::lock_guard lock{mutex_};
  const auto found = later_.find(number);
  return found != later_.end() ? found->second.due - Clock::now() : Duration::zero();
}

std::function<void()> Posts::take(std::uint64_t number) {
  const std::lock_guard lock{mutex_};
  if (number != 0) {
    auto found = later_.extract(number);
    return found.empty() ? std::function<void()>{} : std::move(found.mapped().function);
  }
  if (ready_.empty())
    return {};
  auto function = std::move(ready_.front());
  ready_.pop_front();
  return function;
}

void Posts::close() {
  std::deque<std::function<void()>> ready;
  std::map<std::uint64_t, Later> later;
  const std::lock_guard lock{mutex_};
  closed_ = true;
  ready.swap(ready_);
  later.swap(later_);
}

} // namespace detail

bool ActorThread::push(Duration wait, std::function<void()> function) const {
  return posts_->push(wait, std::move(function));
}

} // namespace gpuactors
