// Switching between stacks. On x86-64 a switch pushes the registers that a call preserves, and swaps stack pointers.
// This takes a few nanoseconds; ucontext's switch asks the kernel for the signal mask twice. Other CPUs use ucontext.
#include "tests/support/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "common/base/check.h"

#if defined(__SANITIZE_ADDRESS__)  // GCC's
#define ROOST_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROOST_SIMT_ASAN 1
#endif
#endif

#ifdef ROOST_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace roost::simt {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kStackBytes = 256 * 1024;  // mapped; memory is taken as it is touched
constexpr std::size_t kOuterFramesBytes = 8192;  // the frames of a fiber that never return

// Clears what AddressSanitizer remembers of frames in this memory that never returned.
void Forget([[maybe_unused]] const std::byte* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef ROOST_SIMT_ASAN
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

thread_local FiberSet* entering = nullptr;  // the set whose fiber starts

}  // namespace

#if defined(__x86_64__)
extern "C" void roost_simt_switch(void** from, void* to);
asm(R"(
.text
.globl roost_simt_switch
.type roost_simt_switch, @function
roost_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size roost_simt_switch, .-roost_simt_switch
)");
#endif

struct FiberSet::Stack {
#if defined(__x86_64__)
  void* pointer = nullptr;
#else
  ucontext_t context;
#endif
  std::byte* memory = nullptr;  // null: the thread's own stack
  bool finished = true;
  void* fake_stack = nullptr;    // AddressSanitizer's
  const void* bottom = nullptr;  // of a thread's own stack, from AddressSanitizer
  std::size_t bytes = kStackBytes;

  Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() {
    if (memory != nullptr) ::munmap(memory, kGuardBytes + kStackBytes);
  }

  void Map() {
    void* mapped = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ROOST_CHECK(mapped != MAP_FAILED);
    ROOST_CHECK(::mprotect(mapped, kGuardBytes, PROT_NONE) == 0);
    memory = static_cast<std::byte*>(mapped);
    bottom = memory + kGuardBytes;
    Forget(memory + kGuardBytes, kStackBytes);
  }

  // The next switch to it calls `enter`.
  void Prepare(void (*enter)()) {
    Forget(memory + kGuardBytes + kStackBytes - kOuterFramesBytes, kOuterFramesBytes);
#if defined(__x86_64__)
    // From the top: padding so that `enter` begins as if it had been called, its address, six registers.
    auto* top = reinterpret_cast<void**>(memory + kGuardBytes + kStackBytes);
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void*>(enter);
    for (int i = 3; i <= 8; ++i) top[-i] = nullptr;
    pointer = top - 8;
#else
    ROOST_CHECK(::getcontext(&context) == 0);
    context.uc_stack.ss_sp = memory + kGuardBytes;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    ::makecontext(&context, enter, 0);
#endif
    finished = false;
    fake_stack = nullptr;
  }

  void SwitchTo(Stack& to) {
#ifdef ROOST_SIMT_ASAN
    __sanitizer_start_switch_fiber(finished && memory != nullptr ? nullptr : &fake_stack, to.bottom, to.bytes);
#endif
#if defined(__x86_64__)
    roost_simt_switch(&pointer, to.pointer);
#else
    ::swapcontext(&context, &to.context);
#endif
    Arrive(nullptr);
  }

  // `from`: the stack that control came from, if it is a thread's own and not yet known.
  void Arrive([[maybe_unused]] Stack* from) {
#ifdef ROOST_SIMT_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, from != nullptr ? &from->bottom : nullptr,
                                    from != nullptr ? &from->bytes : nullptr);
#endif
  }
};

FiberSet::FiberSet() : owner_(std::make_unique<Stack>()) {}

FiberSet::~FiberSet() = default;

void FiberSet::Start(std::size_t count, std::function<void(std::size_t)> body) {
  for (const auto& stack : stacks_) ROOST_CHECK(stack->finished, "a fiber is under way");
  while (stacks_.size() < count) {
    stacks_.push_back(std::make_unique<Stack>());
    stacks_.back()->Map();
  }
  for (std::size_t i = 0; i < count; ++i) stacks_[i]->Prepare(Enter);
  body_ = std::move(body);
}

bool FiberSet::Resume(std::size_t index) {
  ROOST_CHECK(!stacks_[index]->finished);
  current_ = index;
  entering = this;
  owner_->SwitchTo(*stacks_[index]);
  return !stacks_[index]->finished;
}

void FiberSet::Suspend() { stacks_[current_]->SwitchTo(*owner_); }

void FiberSet::Enter() {
  FiberSet& set = *entering;
  Stack& self = *set.stacks_[set.current_];
  self.Arrive(set.owner_.get());
  set.body_(set.current_);
  self.finished = true;
  self.SwitchTo(*set.owner_);
}

}  // namespace roost::simt
