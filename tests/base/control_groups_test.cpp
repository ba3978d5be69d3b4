// What control groups let a process use, in a root that the test makes.
#include <gpuactors/base/control_groups.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

class Root {
public:
  void write(const std::string& file, const std::string& text) const {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }

  [[nodiscard]] const std::filesystem::path& path() const {
    return folder_.path();
  }

private:
  TemporaryFolder folder_;
};

} // namespace

TEST_CASE("without control groups a process may use the machine", "[base]") {
  const Root root;
  CHECK(usable_cpus(root.path()) >= 1);
  CHECK(usable_cpus(root.path()) <= std::thread::hardware_concurrency());
  CHECK(usable_memory(root.path()) == 0);
  root.write("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable: 500 kB\n");
  CHECK(usable_memory(root.path()) == 1000 * 1024);
  CHECK(usable_cpus() >= 1);
  CHECK(usable_memory() > 0);
}

TEST_CASE("the least quota of a process's groups bounds its processors, rounded up", "[base]") {
  const Root root;
  root.write("proc/self/cgroup", "0::/pods/mine\n");
  root.write("sys/fs/cgroup/pods/cpu.max", "100000 100000\n");
  root.write("sys/fs/cgroup/pods/mine/cpu.max", "max 100000\n");
  CHECK(usable_cpus(root.path()) == 1);
  root.write("sys/fs/cgroup/pods/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/pods/mine/cpu.max", "20000 100000\n");
  CHECK(usable_cpus(root.path()) == 1);
  root.write("sys/fs/cgroup/pods/mine/cpu.max", "110000 100000\n");
  CHECK(usable_cpus(root.path()) == std::min(2U, usable_cpus()));
  root.write("sys/fs/cgroup/pods/mine/cpu.max", "max 100000\n");
  CHECK(usable_cpus(root.path()) == usable_cpus());
}

TEST_CASE("control groups of version 1 bound a process, too", "[base]") {
  const Root root;
  root.write("proc/meminfo", "MemTotal:  1000 kB\n");
  root.write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n");
  root.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "512000\n");
  CHECK(usable_cpus(root.path()) == 1);
  CHECK(usable_memory(root.path()) == 512000);
  root.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(usable_cpus(root.path()) == usable_cpus());
  CHECK(usable_memory(root.path()) == 1000 * 1024);
}

TEST_CASE("in a container the group may be at the mount, whatever its path says", "[base]") {
  const Root root;
  root.write("proc/meminfo", "MemTotal:  1000 kB\n");
  root.write("proc/self/cgroup", "0::/system.slice/docker-1.scope\n");
  root.write("sys/fs/cgroup/memory.max", "4096\n");
  CHECK(usable_memory(root.path()) == 4096);
  CHECK(control_groups("memory", root.path()).size() == 3);
}
