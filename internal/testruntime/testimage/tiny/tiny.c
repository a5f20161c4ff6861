// The cheapest program to execute: no libc, no start-up code, two pages. Without an
// argument it ends with code 0; with a number it executes itself that many times in
// one process before it does, which costs a small part of what as many forks would.

#if defined(__x86_64__)
#define NR_EXECVE 59
#define NR_EXIT 60
static long syscall3(long nr, long a, long b, long c)
{
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return ret;
}
__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
#elif defined(__aarch64__)
#define NR_EXECVE 221
#define NR_EXIT 93
static long syscall3(long nr, long a, long b, long c)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
__asm__(".globl _start\n_start:\n\tmov x0, sp\n\tbl start\n");
#else
#error "no system calls for this processor"
#endif

// start gets the stack as the kernel leaves it: argc, the arguments, a null.
__attribute__((used, noreturn)) void start(long *stack)
{
	char **argv = (char **)(stack + 1);
	long left = 0, failed = 0;

	if (stack[0] > 1)
		for (const char *p = argv[1]; *p >= '0' && *p <= '9'; p++)
			left = left * 10 + (*p - '0');
	if (left > 0) {
		char number[24];
		char *p = number + sizeof(number) - 1;
		*p = 0;
		left--;
		do
			*--p = (char)('0' + left % 10);
		while (left /= 10);
		char *next[] = {argv[0], p, 0};
		char *env[] = {0};
		syscall3(NR_EXECVE, (long)argv[0], (long)next, (long)env);
		failed = 1; // it came back
	}
	syscall3(NR_EXIT, failed, 0, 0);
	__builtin_unreachable();
}
