// An op table of late devices (late_device.h) over another table: its ops, uploads, readbacks and collective ops are
// queued, blocks travel on streams of their own, and memory holds NaN until what fills it has ended. So whatever reads
// bytes before they are there, or writes to memory that is still read, gives wrong bits.
//
//   const kernels::OpTable& ops = LateOps<kernels::CpuOps>();
//   LateStreams::All().Reset(seed);                    // before a device is opened
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/ops.h"
#include "tests/support/late_device.h"
#include "tests/support/move_rows.h"

namespace roost::testing_support {

inline void FillWithNaN(void* memory, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, 0xFF, bytes);
}

template <const kernels::OpTable& (*kBase)()>
class LateTable {
 public:
  static kernels::OpTable Make();

 private:
  using Device = kernels::Device;
  using Entry = LateStreams::Entry;
  using Stream = LateStreams::Stream;

  static LateStreams& All() { return LateStreams::All(); }

  struct Readback {
    std::vector<std::byte> bytes;
    std::uint64_t mark = 0;
  };

  struct LateDevice final : Device {
    LateDevice(Device* made, std::uint32_t number) : base(made), ordinal(number), ops(All().Open()) {}
    ~LateDevice() {
      All().Close(ops);
      kBase().close(base);
    }
    static LateDevice& Of(Device& device) { return static_cast<LateDevice&>(device); }

    void Add(Entry entry) {
      if (recorded) {
        recorded->push_back(std::move(entry));
      } else {
        All().Add(ops, std::move(entry));
      }
    }
    void Await() { All().Await(ops, All().Mark(ops)); }

    Device* const base;
    const std::uint32_t ordinal;
    Stream* const ops;
    std::vector<Entry> scatters;  // that a fault keeps back
    std::vector<Stream*> beside;  // of its CopyStreams
    std::optional<std::vector<Entry>> recorded;
    std::array<Readback, kernels::kMaxReadbacks> readbacks;
    std::size_t begun_count = 0;
    std::size_t ended_count = 0;
  };

  static Entry One(std::function<void()> work) {
    Entry entry;
    entry.parts.push_back(std::move(work));
    return entry;
  }
  static void CheckNotRecording(Device& device) {
    ROOST_CHECK(!LateDevice::Of(device).recorded, "a copy, an allocation or a wait is recorded");
  }

  template <auto kMember, typename Args>
  static void Op(Device& device, const Args& args) {
    LateDevice& late = LateDevice::Of(device);
    late.Add(One([base = late.base, args] { (kBase().*kMember)(*base, args); }));
  }

  class Calls final : public kernels::Recording {
   public:
    explicit Calls(std::vector<Entry> made) : entries(std::move(made)) {}
    const std::vector<Entry> entries;
  };

  class Streams final : public kernels::CopyStreams {
   public:
    explicit Streams(LateDevice& device)
        : device_(device),
          base_(kBase().open_copy_streams == nullptr ? nullptr : kBase().open_copy_streams(*device.base)) {
      for (Stream*& stream : ways_) stream = All().Open();
      gathers_ = All().Open();
      device.beside = {ways_[0], ways_[1], gathers_};
    }
    ~Streams() override {
      device_.beside.clear();
      for (Stream* const stream : ways_) All().Close(stream);
      All().Close(gathers_);
    }

    void Gather(const kernels::MoveBlocksArgs& args) override {
      std::vector<kernels::BlockMove> moves(args.moves, args.moves + args.count);
      const auto run = [this, args, moves] {
        kernels::MoveBlocksArgs own = args;
        own.moves = moves.data();
        if (base_ != nullptr) {
          base_->Gather(own);
        } else {
          kernels::GatherBlocksCpu(*device_.base, own);
        }
      };
      const auto poison = [args, moves] {
        for (const kernels::BlockMove& move : moves) {
          FillWithNaN(static_cast<std::byte*>(args.buffer) + move.place * args.kv.BlockBytes(), args.kv.BlockBytes());
        }
      };
      Entry entry;
      entry.parts = {poison, run};
      All().Add(gathers_, std::move(entry));
      gathered_ = All().Mark(gathers_);
    }
    void Begin(kernels::CopyWay way, std::size_t place, const kernels::RowsCopy& asked) override {
      kernels::RowsCopy copy = asked;
      if (All().Has(LateFault::kNeighboursHeadsAreTaken)) {
        const bool is_even = device_.ordinal % 2 == 0;
        copy.host = static_cast<std::byte*>(copy.host) + (is_even ? copy.width : 0) - (is_even ? 0 : copy.width);
      }
      Stream* const stream = StreamOf(way);
      if (way == kernels::CopyWay::kOut) All().AddWait(stream, gathers_, gathered_);
      const auto poison = [way, copy] {
        for (std::size_t row = 0; row < copy.rows; ++row) {
          void* const to = way == kernels::CopyWay::kOut
                               ? static_cast<std::byte*>(copy.host) + row * copy.host_pitch
                               : static_cast<std::byte*>(copy.device) + row * copy.device_pitch;
          FillWithNaN(to, copy.width);
        }
      };
      Entry entry;
      entry.parts = {poison, [way, copy] { MoveRows(way, copy); }};
      All().Add(stream, std::move(entry));
      marks_[static_cast<std::size_t>(way)][place] = All().Mark(stream);
    }
    void Await(kernels::CopyWay way, std::size_t place) override {
      if (All().Has(LateFault::kCopiesAreNotAwaited)) return;
      All().Await(StreamOf(way), marks_[static_cast<std::size_t>(way)][place]);
    }
    void Clear(void* device, std::size_t bytes) override {
      Stream* const stream = StreamOf(kernels::CopyWay::kIn);
      All().Add(stream, [device, bytes] { std::memset(device, 0, bytes); });
      All().Await(stream, All().Mark(stream));
    }
    void HoldOps() override {
      CheckNotRecording(device_);
      if (All().Has(LateFault::kOpsDoNotWaitForGathers)) return;
      All().AddWait(device_.ops, gathers_, gathered_);
    }

   private:
    [[nodiscard]] Stream* StreamOf(kernels::CopyWay way) const { return ways_[static_cast<std::size_t>(way)]; }

    LateDevice& device_;
    const std::unique_ptr<kernels::CopyStreams> base_;  // null: the CPU's function
    std::array<Stream*, kernels::kCopyWays> ways_{};
    Stream* gathers_ = nullptr;
    std::atomic<std::uint64_t> gathered_ = 0;
    std::array<std::array<std::uint64_t, kernels::CopyStreams::kPlaces>, kernels::kCopyWays> marks_{};
  };

  // ---- collective ops: each rank brings, then each takes ----

  struct Group final : LateStreams::Group {
    std::vector<float> sums;
    std::vector<std::byte> bytes;
    float* out = nullptr;
  };
  class Communicator final : public kernels::Communicator {
   public:
    Communicator(std::uint32_t rank, std::uint32_t rank_count, std::shared_ptr<kernels::RankBarrier> barrier,
                 std::shared_ptr<Group> made)
        : kernels::Communicator(rank, rank_count, std::move(barrier)), group(std::move(made)) {}
    static Communicator& Of(kernels::Communicator* communicator) { return static_cast<Communicator&>(*communicator); }
    const std::shared_ptr<Group> group;
  };

  static void AddMeeting(Device& device, const std::shared_ptr<Group>& group, std::function<void()> bring,
                         std::function<void()> take) {
    Entry entry;
    entry.parts = {std::move(bring), std::move(take)};
    entry.group = group;
    LateDevice::Of(device).Add(std::move(entry));
  }
  static void AllReduce(Device& device, const kernels::AllReduceArgs& args) {
    const Communicator& communicator = Communicator::Of(args.communicator);
    Group* const group = communicator.group.get();
    const bool is_first = communicator.rank() == 0;
    AddMeeting(
        device, communicator.group,
        [=] {
          if (is_first) group->sums.assign(args.count, 0);
          for (std::size_t i = 0; i < args.count; ++i) group->sums[i] += LoadElement(args.values, args.dtype, i);
        },
        [=] {
          for (std::size_t i = 0; i < args.count; ++i) StoreElement(args.values, args.dtype, i, group->sums[i]);
        });
  }
  static void GatherColumns(Device& device, const kernels::GatherColumnsArgs& args) {
    const Communicator& communicator = Communicator::Of(args.communicator);
    Group* const group = communicator.group.get();
    const std::uint32_t rank = communicator.rank();
    const std::uint32_t begin = kernels::ColumnsBegin(args.width, rank, communicator.rank_count());
    const std::size_t columns = kernels::ColumnsBegin(args.width, rank + 1, communicator.rank_count()) - begin;
    AddMeeting(
        device, communicator.group,
        [=] {
          if (rank == 0) group->out = args.out;
          for (std::size_t row = 0; row < args.rows; ++row) {
            std::copy_n(args.part + row * columns, columns, group->out + row * args.width + begin);
          }
        },
        [] {});
  }
  static void Broadcast(Device& device, const kernels::BroadcastArgs& args) {
    const Communicator& communicator = Communicator::Of(args.communicator);
    Group* const group = communicator.group.get();
    const bool is_first = communicator.rank() == 0;
    auto* const values = static_cast<std::byte*>(args.values);
    AddMeeting(
        device, communicator.group,
        [=] {
          if (is_first) group->bytes.assign(values, values + args.bytes);
        },
        [=] { std::copy(group->bytes.begin(), group->bytes.end(), values); });
  }
  static Result<kernels::Communicators> Connect(std::span<Device* const> devices) {
    const auto rank_count = static_cast<std::uint32_t>(devices.size());
    const auto barrier = std::make_shared<kernels::RankBarrier>(rank_count);
    const auto group = std::make_shared<Group>();
    group->rank_count = rank_count;
    kernels::Communicators communicators;
    for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
      communicators.push_back(std::make_unique<Communicator>(rank, rank_count, barrier, group));
    }
    return communicators;
  }

  // ---- memory ----

  static void* Allocate(Device& device, std::size_t bytes) {
    CheckNotRecording(device);
    void* const memory = kBase().allocate(*LateDevice::Of(device).base, bytes);
    if (memory != nullptr) FillWithNaN(memory, bytes);
    return memory;
  }
  // As cudaFree, it waits for the whole device.
  static void Release(Device& device, void* memory) {
    LateDevice& late = LateDevice::Of(device);
    late.Await();
    for (const Stream* const stream : late.beside) All().Await(stream, All().Mark(stream));
    kBase().release(*late.base, memory);
  }
  static void CopyToDevice(Device& device, void* to, const void* from, std::size_t bytes) {
    CheckNotRecording(device);
    const auto* const first = static_cast<const std::byte*>(from);
    LateDevice::Of(device).Add(One([to, copied = std::vector<std::byte>(first, first + bytes)] {
      if (!copied.empty()) std::memcpy(to, copied.data(), copied.size());
    }));
  }
  static void Upload(Device& device, void* to, std::span<const kernels::HostPiece> pieces) {
    CheckNotRecording(device);
    std::vector<std::byte> copied(kernels::BytesOf(pieces));
    kernels::Gather(pieces, copied.data());
    CopyToDevice(device, to, copied.data(), copied.size());
  }
  static void CopyToHost(Device& device, void* to, const void* from, std::size_t bytes) {
    CheckNotRecording(device);
    LateDevice::Of(device).Await();
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  static void BeginReadback(Device& device, const void* from, std::size_t bytes) {
    CheckNotRecording(device);
    LateDevice& late = LateDevice::Of(device);
    ROOST_CHECK(late.begun_count - late.ended_count < kernels::kMaxReadbacks);
    Readback& readback = late.readbacks[late.begun_count++ % kernels::kMaxReadbacks];
    readback.bytes.resize(bytes);
    for (Entry& scatter : std::exchange(late.scatters, {})) late.Add(std::move(scatter));
    late.Add(One([&readback, from] {
      if (!readback.bytes.empty()) std::memcpy(readback.bytes.data(), from, readback.bytes.size());
    }));
    readback.mark = All().Mark(late.ops);
  }
  static void EndReadback(Device& device, void* to) {
    CheckNotRecording(device);
    LateDevice& late = LateDevice::Of(device);
    ROOST_CHECK(late.ended_count < late.begun_count);
    const Readback& readback = late.readbacks[late.ended_count++ % kernels::kMaxReadbacks];
    if (readback.bytes.empty() && All().Has(LateFault::kOnlyTheFirstRankIsAwaited)) return;
    All().Await(late.ops, readback.mark);
    if (!readback.bytes.empty()) std::memcpy(to, readback.bytes.data(), readback.bytes.size());
  }
  // With the lists of host memory that it was given.
  static void CopyBlockRows(Device& device, const kernels::CopyBlockRowsArgs& args) {
    CheckNotRecording(device);
    LateDevice& late = LateDevice::Of(device);
    late.Add(One([base = late.base, args,
                  copies = std::vector<kernels::BlockRowsCopy>(args.copies, args.copies + args.copy_count)] {
      kernels::CopyBlockRowsArgs own = args;
      own.copies = copies.data();
      kBase().copy_block_rows(*base, own);
    }));
  }
  static void ScatterBlocks(Device& device, const kernels::MoveBlocksArgs& args) {
    CheckNotRecording(device);
    LateDevice& late = LateDevice::Of(device);
    const std::vector<kernels::BlockMove> moves(args.moves, args.moves + args.count);
    Entry entry = One([base = late.base, args, moves] {
      kernels::MoveBlocksArgs own = args;
      own.moves = moves.data();
      kBase().scatter_blocks(*base, own);
    });
    if (All().Has(LateFault::kScattersComeLast)) {
      late.scatters.push_back(std::move(entry));
    } else {
      late.Add(std::move(entry));
    }
  }

  static void Replay(Device& device, const kernels::Recording& recording) {
    for (const Entry& entry : static_cast<const Calls&>(recording).entries) LateDevice::Of(device).Add(entry);
  }
};

template <const kernels::OpTable& (*kBase)()>
kernels::OpTable LateTable<kBase>::Make() {
  using kernels::OpTable;
  OpTable ops = kBase();
  ops.name = "late";
  ops.has_host_memory = false;
  ops.open = [](const kernels::DeviceOptions& options) -> Result<Device*> {
    kernels::DeviceOptions of_base = options;
    if (kBase().has_host_memory) of_base.ordinal = 0;
    ROOST_ASSIGN_OR_RETURN(Device * base, kBase().open(of_base));
    return static_cast<Device*>(std::make_unique<LateDevice>(base, options.ordinal).release());
  };
  ops.close = [](Device* device) { const std::unique_ptr<LateDevice> owned(static_cast<LateDevice*>(device)); };
  ops.preferred_dtype = [](Device& device) { return kBase().preferred_dtype(*LateDevice::Of(device).base); };
  ops.supports_dtype = [](Device& device, kernels::DType dtype) {
    return kBase().supports_dtype(*LateDevice::Of(device).base, dtype);
  };
  ops.activation_dtype = [](Device& device, kernels::DType dtype) {
    return kBase().activation_dtype(*LateDevice::Of(device).base, dtype);
  };
  ops.arithmetic = [](Device& device) { return kBase().arithmetic(*LateDevice::Of(device).base); };
  ops.begin_batch = [](Device& /*device*/, const kernels::BatchShape& /*shape*/) {};
  ops.fail = [](Device& device, std::string_view call, std::string_view error) {
    kBase().fail(*LateDevice::Of(device).base, call, error);
  };
  ops.allocate = Allocate;
  ops.release = Release;
  ops.memory_use = [](Device& /*device*/) -> std::optional<kernels::MemoryUse> {
    return kernels::MemoryUse{.free_bytes = std::size_t{64} << 20U, .total_bytes = std::size_t{128} << 20U};
  };
  ops.copy_to_device = CopyToDevice;
  ops.upload = Upload;
  ops.reserve_uploads = [](Device& /*device*/, std::size_t /*bytes*/) { return true; };
  ops.copy_to_host = CopyToHost;
  ops.begin_readback = BeginReadback;
  ops.end_readback = EndReadback;
  ops.open_copy_streams = [](Device& device) -> std::unique_ptr<kernels::CopyStreams> {
    return std::make_unique<Streams>(LateDevice::Of(device));
  };
  ops.pin = [](Device& /*device*/, std::size_t bytes) -> void* { return std::aligned_alloc(64, bytes); };
  ops.unpin = [](void* memory) { std::free(memory); };
  ops.begin_recording = [](Device& device) {
    CheckNotRecording(device);
    LateDevice::Of(device).recorded.emplace();
  };
  ops.end_recording = [](Device& device) -> std::unique_ptr<kernels::Recording> {
    return std::make_unique<Calls>(std::exchange(LateDevice::Of(device).recorded, std::nullopt).value());
  };
  ops.replay = Replay;
  ops.check_model = [](Device& device, const kernels::ModelDims& model) {
    return kBase().check_model(*LateDevice::Of(device).base, model);
  };
  ops.gather_embedding = Op<&OpTable::gather_embedding, kernels::GatherEmbeddingArgs>;
  ops.rms_norm = Op<&OpTable::rms_norm, kernels::RmsNormArgs>;
  ops.prepare_matmul = [](Device& device, const kernels::PrepareMatmulArgs& args) {
    kernels::PrepareMatmulArgs own = args;
    own.resident = nullptr;  // those rows are not there yet
    return kBase().prepare_matmul(*LateDevice::Of(device).base, own);
  };
  ops.matmul = Op<&OpTable::matmul, kernels::MatmulArgs>;
  ops.rope_angles = Op<&OpTable::rope_angles, kernels::RopeAnglesArgs>;
  ops.rope_to_cache = Op<&OpTable::rope_to_cache, kernels::RopeToCacheArgs>;
  ops.attention_profile = [](Device& device, std::uint32_t head_dim) {
    return kBase().attention_profile(*LateDevice::Of(device).base, head_dim);
  };
  ops.attention = Op<&OpTable::attention, kernels::AttentionArgs>;
  ops.silu_mul = Op<&OpTable::silu_mul, kernels::SiluMulArgs>;
  ops.copy_block_rows = CopyBlockRows;
  ops.scatter_blocks = ScatterBlocks;
  ops.sample = Op<&OpTable::sample, kernels::SampleArgs>;
  ops.logprobs = Op<&OpTable::logprobs, kernels::LogprobsArgs>;
  ops.place_sampled = Op<&OpTable::place_sampled, kernels::PlaceSampledArgs>;
  ops.connect = Connect;
  ops.all_reduce = AllReduce;
  ops.gather_columns = GatherColumns;
  ops.broadcast = Broadcast;
  return ops;
}

template <const kernels::OpTable& (*kBase)()>
const kernels::OpTable& LateOps() {
  static const kernels::OpTable kOps = LateTable<kBase>::Make();
  return kOps;
}

}  // namespace roost::testing_support
