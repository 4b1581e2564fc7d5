// Stands for the headers that are compiled once for all tests (Tests.cmake).
int main() { return 0; }
