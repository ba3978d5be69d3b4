// What is read of the machine's memory, of control groups and of processes.
#include <gpuactors/agent/memory_reader.hpp>
#include <gpuactors/agent/memory_watch.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <unistd.h>

#include <fstream>
#include <future>
#include <string>
#include <vector>

using namespace gpuactors;

namespace {

constexpr std::uint64_t kib = 1024;

/// The files of a machine with 1000 KiB, of which 600 KiB are available.
class Machine {
public:
  Machine() {
    write("proc/meminfo", "MemTotal:           1000 kB\nMemFree:     100 kB\nMemAvailable:   600 kB\n");
  }

  void write(const std::string& file, const std::string& text) {
    const auto path = folder_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }

  void process(int pid, const std::string& status, const std::string& rollup) {
    write("proc/" + std::to_string(pid) + "/status", status);
    write("proc/" + std::to_string(pid) + "/smaps_rollup", rollup);
  }

  [[nodiscard]] MemoryReader reader() const {
    return MemoryReader{folder_ / ""};
  }

private:
  test::TemporaryFolder folder_;
};

} // namespace

TEST_CASE("without control groups, the memory is the machine's") {
  Machine machine;
  CHECK(machine.reader().limit_bytes() == 1000 * kib);
  CHECK(machine.reader().room() == MemoryRoom{400 * kib, 1000 * kib, false});
}

TEST_CASE("where the system tells nothing, nothing is known") {
  const MemoryReader reader{"/nowhere"};
  CHECK(reader.limit_bytes() == 0);
  CHECK_FALSE(reader.room());
  CHECK(reader.look({{{1, 1}}, 0.5, 1}).workers.empty());
}

TEST_CASE("the least limit of the control groups around a process bounds it, and the fullest is its room") {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  machine.write("sys/fs/cgroup/outer/memory.max", "512000\n");
  machine.write("sys/fs/cgroup/outer/memory.current", "400000\n");
  machine.write("sys/fs/cgroup/outer/memory.stat", "anon 1\nactive_file 60000\ninactive_file 40000\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.current", "400000\n");
  CHECK(machine.reader().limit_bytes() == 512000);
  CHECK(machine.reader().room() == MemoryRoom{300000, 512000, true});
  // The machine itself may be fuller.
  machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 100 kB\n");
  CHECK(machine.reader().room() == MemoryRoom{900 * kib, 1000 * kib, false});
}

TEST_CASE("in a container the group may be at the mount, and version 1 is read likewise") {
  Machine machine;
  machine.write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "512000\n");
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  machine.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1000\ntotal_active_file 2000\n");
  CHECK(machine.reader().room() == MemoryRoom{497000, 512000, true});
  // No limit at all is a number that no machine has.
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.reader().limit_bytes() == 1000 * kib);
}

TEST_CASE("files that a process maps do not count, and shared memory is divided where that decides something") {
  Machine machine;
  machine.process(7, "RssAnon:\t 100 kB\nRssFile:\t 900 kB\nRssShmem:\t 80 kB\nVmSwap:\t 20 kB\n",
                  "Pss_Shmem: 40 kB\n");
  machine.process(8, "RssAnon:\t 10 kB\nRssShmem:\t 80 kB\n", "Pss_Shmem: 40 kB\n");
  machine.process(9, "State: Z (zombie)\n", "");
  const std::vector<MemoryQuery::Process> processes{{1, 7}, {2, 8}, {3, 9}, {4, 10}};
  const std::vector<WorkerMemory> whole{{1, 120 * kib, 80 * kib}, {2, 10 * kib, 80 * kib}};
  const std::vector<WorkerMemory> divided{{1, 120 * kib, 40 * kib}, {2, 10 * kib, 40 * kib}};
  CHECK(machine.reader().look({processes, 0, 0}).workers == whole);
  CHECK(machine.reader().look({processes, 0.5, 300 * kib}).workers == whole);
  CHECK(machine.reader().look({processes, 0.3, 0}).workers == divided);
  CHECK(machine.reader().look({processes, 0, 250 * kib}).workers == divided);
}

TEST_CASE("a watch tells of this very process") {
  const auto watch = MemoryWatch::make();
  REQUIRE(watch);
  const std::vector<char> held(32U << 20, 'x');
  std::promise<MemoryLook> seen;
  (*watch)->look({{{5, static_cast<std::uint32_t>(::getpid())}}, 0, 0},
                 [&](MemoryLook look) { seen.set_value(std::move(look)); });
  const auto look = seen.get_future().get();
  REQUIRE(look.workers.size() == 1);
  CHECK(look.workers[0].worker == 5);
  CHECK(look.workers[0].private_bytes >= held.size());
  REQUIRE(look.room);
  CHECK(look.room->used_bytes >= held.size());
  CHECK(look.room->limit_bytes > look.room->used_bytes);
  CHECK(MemoryReader{}.limit_bytes() > 0);
}
