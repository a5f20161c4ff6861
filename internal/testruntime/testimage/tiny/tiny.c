// A program that ends with code 0 and does nothing before: no libc, no start-up
// code, one page. Executing it costs little more than the system calls do.

__attribute__((noreturn)) void _start(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%edi, %%edi\n\tmov $60, %%eax\n\tsyscall" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov x0, #0\n\tmov x8, #93\n\tsvc #0" ::: "memory");
#else
#error "no exit system call for this processor"
#endif
	__builtin_unreachable();
}
